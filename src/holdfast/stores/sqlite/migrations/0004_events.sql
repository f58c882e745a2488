-- min-client: 1
-- What happened. position: among all of the namespace. version: among those of topic and aggregate. The last version of an
-- aggregate is that of its last event, so that it need not be kept apart. at: never below that of the position before.
CREATE TABLE holdfast_event (
    pk INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    topic TEXT NOT NULL,
    type TEXT NOT NULL,
    aggregate TEXT,
    version INTEGER,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    headers BLOB,
    CHECK (position BETWEEN 0 AND 9000000000000000000),
    CHECK (version BETWEEN 0 AND 9000000000000000000),
    CHECK (at BETWEEN -9000000000000000000 AND 9000000000000000000)
) STRICT;
CREATE UNIQUE INDEX holdfast_event_position ON holdfast_event (ns, position);
CREATE UNIQUE INDEX holdfast_event_id ON holdfast_event (ns, id);
CREATE INDEX holdfast_event_topic ON holdfast_event (ns, topic, position);
CREATE INDEX holdfast_event_aggregate ON holdfast_event (ns, topic, aggregate, position, version)
WHERE aggregate IS NOT NULL;

-- The last position that was given, and the at of its event.
CREATE TABLE holdfast_event_head (
    ns INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    CHECK (position BETWEEN 0 AND 9000000000000000000),
    CHECK (at BETWEEN -9000000000000000000 AND 9000000000000000000)
) STRICT;

-- The highest version that an aggregate of the topic had when its last event was removed.
CREATE TABLE holdfast_event_floor (
    ns INTEGER NOT NULL,
    topic TEXT NOT NULL,
    version INTEGER NOT NULL,
    CHECK (version BETWEEN 0 AND 9000000000000000000),
    PRIMARY KEY (ns, topic)
) STRICT, WITHOUT ROWID;

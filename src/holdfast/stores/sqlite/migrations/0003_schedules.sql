-- min-client: 1
-- Recurring work. mark: of the last write. look_at: when to look at it. job: the one that it fired last; with waits it is to
-- be looked at as soon as that job is not live.
CREATE TABLE holdfast_schedule (
    pk INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    mark TEXT NOT NULL,
    look_at INTEGER,
    job TEXT,
    waits INTEGER NOT NULL,
    definition BLOB NOT NULL,
    state BLOB NOT NULL,
    CHECK (version BETWEEN 0 AND 9000000000000000000)
) STRICT;
CREATE UNIQUE INDEX holdfast_schedule_name ON holdfast_schedule (ns, name);
CREATE INDEX holdfast_schedule_look ON holdfast_schedule (ns, look_at, name) WHERE look_at IS NOT NULL;
CREATE INDEX holdfast_schedule_waits ON holdfast_schedule (ns, name) WHERE waits = 1;

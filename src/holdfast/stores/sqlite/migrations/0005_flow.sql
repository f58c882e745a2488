-- min-client: 5
-- Namespaces in which a limit was put or a job with a flow was added; in all others nothing looks at what follows.
-- mark: of the limits as they stand. turn: the last that was given in any sequence.
CREATE TABLE holdfast_flow (
    ns INTEGER PRIMARY KEY,
    mark INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    CHECK (turn BETWEEN 0 AND 9000000000000000000)
) STRICT;

-- since: when it was paused, NULL while it is not.
CREATE TABLE holdfast_limit (
    ns INTEGER NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    concurrency INTEGER,
    rate INTEGER,
    period INTEGER NOT NULL,
    burst INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    weight REAL NOT NULL,
    declared INTEGER NOT NULL,
    since INTEGER,
    CHECK (scope IN ('queue', 'task', 'key', 'each_key')),
    CHECK (concurrency BETWEEN 0 AND 2147483647),
    CHECK (rate BETWEEN 0 AND 2147483647),
    CHECK (burst BETWEEN 0 AND 2147483647),
    CHECK (period BETWEEN 0 AND 9000000000000000000),
    CHECK (weight > 0),
    PRIMARY KEY (ns, scope, name)
) STRICT, WITHOUT ROWID;

-- How far a gate has used up its rate. A row whose last has passed says nothing, and is swept away.
CREATE TABLE holdfast_rate (
    ns INTEGER NOT NULL,
    gate TEXT NOT NULL,
    last INTEGER NOT NULL,
    CHECK (last BETWEEN -9000000000000000000 AND 9000000000000000000),
    PRIMARY KEY (ns, gate)
) STRICT, WITHOUT ROWID;

-- Jobs of one queue and task that are parked at a gate. opens: when to look at them; NULL until something makes room.
CREATE TABLE holdfast_line (
    ns INTEGER NOT NULL,
    gate TEXT NOT NULL,
    queue TEXT NOT NULL,
    task TEXT NOT NULL,
    opens INTEGER,
    CHECK (opens BETWEEN -9000000000000000000 AND 9000000000000000000),
    PRIMARY KEY (ns, gate, queue, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_line_opens ON holdfast_line (ns, opens) WHERE opens IS NOT NULL;

CREATE TABLE holdfast_halt (
    ns INTEGER NOT NULL,
    sequence TEXT NOT NULL,
    job TEXT NOT NULL,
    PRIMARY KEY (ns, sequence)
) STRICT, WITHOUT ROWID;

-- The last rank that a key got in a queue.
CREATE TABLE holdfast_fair (
    ns INTEGER NOT NULL,
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    last INTEGER NOT NULL,
    CHECK (last BETWEEN -9000000000000000000 AND 9000000000000000000),
    PRIMARY KEY (ns, queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_fair_last ON holdfast_fair (ns, queue, last);

-- waiter waits for job; state: how that ended, NULL while it is pending. Who is held waits for a job without a name.
CREATE TABLE holdfast_link (
    ns INTEGER NOT NULL,
    waiter TEXT NOT NULL,
    job TEXT NOT NULL,
    state INTEGER,
    CHECK (state BETWEEN 0 AND 7),
    PRIMARY KEY (ns, waiter, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_link_job ON holdfast_link (ns, job, waiter, state) WHERE state IS NULL;
CREATE INDEX holdfast_link_pending ON holdfast_link (ns, waiter, state) WHERE state IS NULL;

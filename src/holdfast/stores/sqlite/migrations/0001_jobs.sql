-- min-client: 1
-- Live jobs stand in holdfast_job, finished ones in holdfast_done: a state names one table.
-- Times are microseconds since 1970 by the store's clock. States: 0 scheduled, 1 claimed, 2 running, 3 success,
-- 4 failed, 5 retry, 6 dlq, 7 cancelled.
-- Tables are strict, and checks keep out what nobody could work with: a state that is none, a count or an instant so large
-- that the next one is no number any more. So whoever else writes here is refused, and a claim never meets such a row.

CREATE TABLE holdfast_namespace (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- The store's clock: at boot_time (nanoseconds since the boot that boot_id names) it was wall. It never went beyond seen.
CREATE TABLE holdfast_clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    wall INTEGER NOT NULL,
    boot_time INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    seen INTEGER NOT NULL,
    CHECK (wall BETWEEN 0 AND 253402300799999999 AND seen BETWEEN 0 AND 253402300799999999),
    CHECK (boot_time BETWEEN 0 AND 9000000000000000000)
) STRICT;

-- What of a job never changes and may be long, so that changes do not copy it. Its pk is that of the live job.
CREATE TABLE holdfast_body (
    pk INTEGER PRIMARY KEY,
    payload BLOB NOT NULL,
    headers BLOB,
    retry BLOB
) STRICT;

-- ready: 1 due and waiting, 0 waiting for its due time, NULL leased or parked. worker and seq: who claimed it, by which
-- tick. rank: its place among the ready ones of its priority, the due time unless it has a fair key. turn: its place in its
-- sequence. halts, after_any: 1 or NULL. gate: where it is parked.
CREATE TABLE holdfast_job (
    pk INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    ready INTEGER,
    state INTEGER NOT NULL DEFAULT 0,
    run INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    suspect INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    token INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    seq INTEGER,
    lease_until INTEGER,
    started INTEGER,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    lease INTEGER,
    timeout INTEGER,
    key TEXT,
    tags TEXT,
    progress TEXT,
    progress_note TEXT,
    reason TEXT,
    error TEXT,
    result BLOB,
    limit_key TEXT,
    fair_key TEXT,
    sequence TEXT,
    turn INTEGER,
    halts INTEGER,
    after_any INTEGER,
    expires INTEGER,
    unmet INTEGER,
    gate TEXT,
    CHECK (state BETWEEN 0 AND 7),
    CHECK (min(run, failures, lost, version) >= 0 AND max(run, failures, lost, version) <= 2000000000),
    CHECK (token BETWEEN 0 AND 9000000000000000000),
    CHECK (lease BETWEEN 0 AND 4611686018427387904),
    CHECK (timeout BETWEEN 0 AND 4611686018427387904)
) STRICT;
CREATE UNIQUE INDEX holdfast_job_id ON holdfast_job (ns, id);
-- The last columns let claims, counts and looks at the next due time do without the table.
CREATE INDEX holdfast_job_ready ON holdfast_job (ns, queue, priority, rank, id, task, state, ready) WHERE ready = 1;
CREATE INDEX holdfast_job_later ON holdfast_job (ns, queue, due, state, ready) WHERE ready = 0;
CREATE INDEX holdfast_job_leased ON holdfast_job (ns, worker, seq) WHERE worker IS NOT NULL;
CREATE INDEX holdfast_job_asked ON holdfast_job (ns, worker, id, token, cancel_asked) WHERE cancel_asked = 1;
CREATE INDEX holdfast_job_parked ON holdfast_job (ns, gate, queue, task, priority, rank, id, state) WHERE gate IS NOT NULL;
CREATE INDEX holdfast_job_limit_key ON holdfast_job (ns, limit_key) WHERE limit_key IS NOT NULL AND worker IS NOT NULL;
CREATE INDEX holdfast_job_turn ON holdfast_job (ns, sequence, turn) WHERE sequence IS NOT NULL;
CREATE INDEX holdfast_job_sequence ON holdfast_job (ns, sequence) WHERE sequence IS NOT NULL AND worker IS NOT NULL;
CREATE INDEX holdfast_job_expires ON holdfast_job (ns, expires, id, run) WHERE expires IS NOT NULL AND run = 0;

-- ran_by: the worker of a plain success, whose attempt is told by this row and has none in holdfast_attempt.
CREATE TABLE holdfast_done (
    pk INTEGER PRIMARY KEY,
    body INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    state INTEGER NOT NULL,
    run INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    version INTEGER NOT NULL,
    token INTEGER NOT NULL,
    ran_by TEXT,
    started INTEGER,
    finished INTEGER,
    cancel_asked INTEGER NOT NULL,
    created INTEGER NOT NULL,
    lease INTEGER,
    timeout INTEGER,
    key TEXT,
    tags TEXT,
    progress TEXT,
    progress_note TEXT,
    reason TEXT,
    error TEXT,
    result BLOB,
    rank INTEGER,
    limit_key TEXT,
    fair_key TEXT,
    sequence TEXT,
    turn INTEGER,
    halts INTEGER,
    after_any INTEGER,
    expires INTEGER,
    unmet INTEGER,
    CHECK (state BETWEEN 0 AND 7),
    CHECK (min(run, failures, lost, version) >= 0 AND max(run, failures, lost, version) <= 2000000000),
    CHECK (token BETWEEN 0 AND 9000000000000000000),
    CHECK (lease BETWEEN 0 AND 4611686018427387904),
    CHECK (timeout BETWEEN 0 AND 4611686018427387904)
) STRICT;
CREATE UNIQUE INDEX holdfast_done_id ON holdfast_done (ns, id);
CREATE INDEX holdfast_done_finished ON holdfast_done (ns, finished) WHERE state <> 6;
CREATE INDEX holdfast_done_other ON holdfast_done (ns, state, id) WHERE state <> 3;

-- closer: who ended the attempt, if not its own worker.
CREATE TABLE holdfast_attempt (
    ns INTEGER NOT NULL,
    job TEXT NOT NULL,
    token INTEGER NOT NULL,
    run INTEGER NOT NULL,
    worker TEXT NOT NULL,
    closer TEXT,
    started INTEGER,
    finished INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    error TEXT,
    CHECK (min(token, finished) >= -9000000000000000000 AND max(token, finished) <= 9000000000000000000),
    PRIMARY KEY (ns, job, token)
) STRICT, WITHOUT ROWID;

-- Held by its job while that is live, and until the end of the TTL.
CREATE TABLE holdfast_key (
    ns INTEGER NOT NULL,
    key TEXT NOT NULL,
    job TEXT NOT NULL,
    until INTEGER NOT NULL,
    CHECK (until BETWEEN -9000000000000000000 AND 9000000000000000000),
    PRIMARY KEY (ns, key)
) STRICT, WITHOUT ROWID;

-- How many finished jobs there are, so that nobody has to count them.
CREATE TABLE holdfast_tally (
    ns INTEGER NOT NULL,
    queue TEXT NOT NULL,
    state INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    CHECK (state BETWEEN 0 AND 7),
    CHECK (jobs BETWEEN -9000000000000000000 AND 9000000000000000000),
    PRIMARY KEY (ns, queue, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_worker (
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    queues TEXT NOT NULL,
    tasks TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    version TEXT NOT NULL,
    started INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    live_until INTEGER NOT NULL,
    report BLOB,
    reported INTEGER NOT NULL DEFAULT 0,
    CHECK (min(started, seen, live_until, reported) >= -9000000000000000000 AND max(started, seen, live_until, reported) <= 9000000000000000000),
    PRIMARY KEY (ns, id)
) STRICT, WITHOUT ROWID;

-- A queue stands here once it was paused. since: when it was, NULL while it is not.
CREATE TABLE holdfast_queue (
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    paused INTEGER NOT NULL,
    since INTEGER,
    PRIMARY KEY (ns, name)
) STRICT, WITHOUT ROWID;

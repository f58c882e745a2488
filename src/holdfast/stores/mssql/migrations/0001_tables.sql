-- min-client: 1
-- Live jobs stand in job, finished ones in done: a state names one table. What changes while a job is leased stands in lease,
-- so that a job's own row is written by its claim and by its end and by nothing between them: a transaction that will end the
-- attempt never meets a heartbeat.
-- Times are microseconds since 1970 by this server's clock. States: 0 scheduled, 1 claimed, 2 running, 3 success, 4 failed,
-- 5 retry, 6 dlq, 7 cancelled. Names are compared code point by code point.

CREATE TABLE holdfast.namespace (
    id int IDENTITY(1, 1) NOT NULL,
    turns bigint NOT NULL DEFAULT 0,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_namespace_pkey PRIMARY KEY CLUSTERED (id),
    CONSTRAINT holdfast_namespace_name UNIQUE (name)
);
GO

-- ready: 1 due and waiting, 0 waiting for its due time, null leased or parked. worker and seq: who claimed it, by which tick.
-- rank: the order of claims within a priority; that of the due time, unless it has a fair key. place: in its sequence. gate:
-- where it is parked. unmet: how many of those that it waited for did not succeed.
CREATE TABLE holdfast.job (
    ns int NOT NULL,
    id char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    task nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    state tinyint NOT NULL DEFAULT 0,
    ready bit NULL,
    priority bigint NOT NULL,
    due bigint NOT NULL,
    rank bigint NOT NULL,
    created bigint NOT NULL,
    run int NOT NULL DEFAULT 0,
    failures int NOT NULL DEFAULT 0,
    lost int NOT NULL DEFAULT 0,
    suspect bit NOT NULL DEFAULT 0,
    version int NOT NULL DEFAULT 1,
    token bigint NOT NULL DEFAULT 0,
    worker nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    seq bigint NULL,
    lease_until bigint NULL,
    lease bigint NULL,
    timeout bigint NULL,
    started bigint NULL,
    cancel_asked bit NOT NULL DEFAULT 0,
    progress float NULL,
    job_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    place bigint NULL,
    expires bigint NULL,
    unmet int NULL,
    halts bit NULL,
    after_any bit NULL,
    held bit NULL,
    limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    gate nvarchar(220) COLLATE Latin1_General_BIN2 NULL,
    tags nvarchar(max) NULL,
    progress_note nvarchar(max) NULL,
    reason nvarchar(max) NULL,
    error nvarchar(max) NULL,
    payload varbinary(max) NOT NULL,
    headers varbinary(max) NULL,
    retry varbinary(max) NULL,
    result varbinary(max) NULL,
    CONSTRAINT holdfast_job_pkey PRIMARY KEY CLUSTERED (ns, id)
);
CREATE INDEX holdfast_job_ready ON holdfast.job (ns, queue, priority, rank, id) INCLUDE (task) WHERE ready = 1;
CREATE INDEX holdfast_job_later ON holdfast.job (ns, queue, due) WHERE ready = 0;
CREATE INDEX holdfast_job_leased ON holdfast.job (ns, worker, seq) WHERE worker IS NOT NULL;
CREATE INDEX holdfast_job_parked ON holdfast.job (ns, gate, queue, task, priority, rank, id) WHERE gate IS NOT NULL;
CREATE INDEX holdfast_job_turn ON holdfast.job (ns, sequence, place, id) WHERE sequence IS NOT NULL;
CREATE INDEX holdfast_job_expires ON holdfast.job (ns, expires, id) INCLUDE (run, worker) WHERE expires IS NOT NULL;
GO

-- Else whoever writes to thousands of rows would have the whole table, and nobody could pass over what it has.
EXEC ('ALTER TABLE holdfast.job SET (LOCK_ESCALATION = DISABLE)');
GO

CREATE SEQUENCE holdfast.place AS bigint START WITH 1 INCREMENT BY 1;
GO

-- What a heartbeat, a start or a wish to cancel says of one lease. Absent while nothing was said. A row whose token is not
-- the job's is left over, says nothing, and is swept away.
CREATE TABLE holdfast.lease (
    ns int NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    token bigint NOT NULL,
    worker nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    until bigint NOT NULL,
    started bigint NULL,
    changes int NOT NULL DEFAULT 0,
    running bit NOT NULL DEFAULT 0,
    cancel_asked bit NOT NULL DEFAULT 0,
    progress float NULL,
    progress_note nvarchar(max) NULL,
    CONSTRAINT holdfast_lease_pkey PRIMARY KEY CLUSTERED (ns, job, token)
);
CREATE INDEX holdfast_lease_asked ON holdfast.lease (ns, worker) WHERE cancel_asked = 1;
GO

CREATE TABLE holdfast.done (
    ns int NOT NULL,
    id char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    task nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    state tinyint NOT NULL,
    priority bigint NOT NULL,
    due bigint NOT NULL,
    rank bigint NOT NULL,
    created bigint NOT NULL,
    finished bigint NOT NULL,
    run int NOT NULL,
    failures int NOT NULL,
    lost int NOT NULL,
    suspect bit NOT NULL,
    version int NOT NULL,
    token bigint NOT NULL,
    lease bigint NULL,
    timeout bigint NULL,
    started bigint NULL,
    cancel_asked bit NOT NULL,
    progress float NULL,
    job_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    place bigint NULL,
    expires bigint NULL,
    unmet int NULL,
    halts bit NULL,
    after_any bit NULL,
    held bit NULL,
    limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    tags nvarchar(max) NULL,
    progress_note nvarchar(max) NULL,
    reason nvarchar(max) NULL,
    error nvarchar(max) NULL,
    payload varbinary(max) NOT NULL,
    headers varbinary(max) NULL,
    retry varbinary(max) NULL,
    result varbinary(max) NULL,
    CONSTRAINT holdfast_done_pkey PRIMARY KEY CLUSTERED (ns, id)
);
CREATE INDEX holdfast_done_finished ON holdfast.done (ns, finished, id) INCLUDE (state);
CREATE INDEX holdfast_done_state ON holdfast.done (ns, state, id);
GO

-- Ended attempts. closer: who ended it, if not its own worker.
CREATE TABLE holdfast.attempt (
    ns int NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    token bigint NOT NULL,
    run int NOT NULL,
    worker nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    closer nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    started bigint NULL,
    finished bigint NOT NULL,
    outcome varchar(20) NOT NULL,
    reason nvarchar(max) NULL,
    error nvarchar(max) NULL,
    CONSTRAINT holdfast_attempt_pkey PRIMARY KEY CLUSTERED (ns, job, token)
);
GO

-- Held by its job while that is live, and until the end of the TTL if it has one.
CREATE TABLE holdfast.job_key (
    ns int NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    until bigint NULL,
    CONSTRAINT holdfast_job_key_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_job_key_job ON holdfast.job_key (ns, job);
CREATE INDEX holdfast_job_key_until ON holdfast.job_key (ns, until) WHERE until IS NOT NULL;
GO

-- How many finished jobs there are, as changes to be summed up: nobody waits for anybody to count.
CREATE TABLE holdfast.tally (
    n bigint IDENTITY(1, 1) NOT NULL,
    ns int NOT NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    state tinyint NOT NULL,
    jobs bigint NOT NULL,
    CONSTRAINT holdfast_tally_pkey PRIMARY KEY CLUSTERED (ns, n)
);
GO

-- queues and tasks are JSON arrays.
CREATE TABLE holdfast.worker (
    ns int NOT NULL,
    id nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    started bigint NOT NULL,
    seen bigint NOT NULL,
    live_until bigint NOT NULL,
    pid int NOT NULL,
    concurrency int NOT NULL,
    host nvarchar(400) NOT NULL,
    version nvarchar(200) NOT NULL,
    queues nvarchar(max) NOT NULL,
    tasks nvarchar(max) NOT NULL,
    reported bigint NOT NULL DEFAULT 0,
    report varbinary(max) NULL,
    CONSTRAINT holdfast_worker_pkey PRIMARY KEY CLUSTERED (ns, id)
);
GO

-- A queue stands here once it was paused. since: when it was, null while it is not.
CREATE TABLE holdfast.queue (
    ns int NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    paused bit NOT NULL,
    since bigint NULL,
    CONSTRAINT holdfast_queue_pkey PRIMARY KEY CLUSTERED (ns, name)
);
GO

-- The store's clock.
CREATE FUNCTION holdfast.now_v1() RETURNS bigint
AS
BEGIN
    RETURN DATEDIFF_BIG(microsecond, CAST('1970-01-01' AS datetime2(7)), SYSUTCDATETIME());
END
GO

-- Live jobs as they stand. The first columns are those that are told of a job, in this order.
CREATE VIEW holdfast.live
AS
SELECT
    j.id, j.task, j.queue, j.payload, CASE WHEN l.running = 1 THEN CAST(2 AS tinyint) ELSE j.state END AS state, j.priority,
    j.due, j.created, j.run, j.failures, j.lost, j.suspect, j.version + COALESCE(l.changes, 0) AS version, j.token, j.worker,
    COALESCE(l.until, j.lease_until) AS lease_until, j.lease, j.timeout, j.retry, j.headers, j.job_key, j.tags,
    COALESCE(l.started, j.started) AS started, CAST(NULL AS bigint) AS finished,
    CASE WHEN j.cancel_asked = 1 OR l.cancel_asked = 1 THEN 1 ELSE 0 END AS cancel_asked,
    CASE WHEN l.job IS NULL THEN j.progress ELSE l.progress END AS progress,
    CASE WHEN l.job IS NULL THEN j.progress_note ELSE l.progress_note END AS progress_note,
    j.reason, j.error, j.result, j.limit_key, j.fair_key, j.rank, j.sequence, j.halts, j.after_any, j.expires, j.unmet, j.gate,
    j.place, j.held, j.ns
FROM holdfast.job AS j
LEFT JOIN holdfast.lease AS l ON l.ns = j.ns AND l.job = j.id AND l.token = j.token AND j.worker IS NOT NULL;
GO

-- Finished jobs as they stand.
CREATE VIEW holdfast.finished
AS
SELECT
    d.id, d.task, d.queue, d.payload, d.state, d.priority, d.due, d.created, d.run, d.failures, d.lost, d.suspect, d.version,
    d.token, CAST(NULL AS nvarchar(200)) COLLATE Latin1_General_BIN2 AS worker, CAST(NULL AS bigint) AS lease_until, d.lease,
    d.timeout, d.retry, d.headers, d.job_key, d.tags, d.started, d.finished, CAST(d.cancel_asked AS int) AS cancel_asked,
    d.progress, d.progress_note, d.reason, d.error, d.result, d.limit_key, d.fair_key, d.rank, d.sequence, d.halts, d.after_any,
    d.expires, d.unmet, CAST(NULL AS nvarchar(220)) COLLATE Latin1_General_BIN2 AS gate, d.place, d.held, d.ns
FROM holdfast.done AS d;
GO

-- All jobs.
CREATE VIEW holdfast.jobs
AS
SELECT * FROM holdfast.live
UNION ALL
SELECT * FROM holdfast.finished;
GO

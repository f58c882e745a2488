-- The tables and procedures of Holdfast, as `holdfast migrate` makes them. Run it in your
-- database: sqlcmd -b -S SERVER -d DATABASE -G -i create.sql
-- -b stops at the first error, -G signs in with Entra ID. It is safe to run again: what is there is passed
-- over. READ_COMMITTED_SNAPSHOT must be on, else heartbeats wait for transactions of handlers. In Azure SQL
-- it is; elsewhere run this once, while nobody else is connected:
--   ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
SET ANSI_NULLS, QUOTED_IDENTIFIER, XACT_ABORT ON;
GO

IF SCHEMA_ID('holdfast') IS NULL EXEC('CREATE SCHEMA [holdfast]');
GO

IF OBJECT_ID('holdfast.step') IS NULL
CREATE TABLE holdfast.step (
    version int NOT NULL,
    name varchar(200) NOT NULL,
    min_client int NOT NULL,
    applied datetime2 NOT NULL DEFAULT SYSUTCDATETIME(),
    CONSTRAINT holdfast_step_pkey PRIMARY KEY CLUSTERED (version)
);
GO

-- 0001_tables
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 1) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

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

INSERT INTO holdfast.step (version, name, min_client) VALUES (1, '0001_tables', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0002_flow_tables
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 2) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- A namespace stands here once a limit was put there that can hold jobs back, or a job was added that waits for others or its
-- turn: from then on all claims there come one after the other. It may stand here more than once, so that nobody waits for
-- another's transaction.
CREATE TABLE holdfast.flowing (
    ns int NOT NULL,
    n bigint IDENTITY(1, 1) NOT NULL,
    CONSTRAINT holdfast_flowing_pkey PRIMARY KEY CLUSTERED (ns, n)
);
GO

-- since: when it was paused, null while it is not.
CREATE TABLE holdfast.limits (
    ns int NOT NULL,
    scope varchar(10) COLLATE Latin1_General_BIN2 NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    concurrency int NULL,
    rate bigint NULL,
    period bigint NOT NULL,
    burst bigint NOT NULL,
    paused bit NOT NULL,
    weight float NOT NULL,
    declared bit NOT NULL,
    since bigint NULL,
    CONSTRAINT holdfast_limits_pkey PRIMARY KEY CLUSTERED (ns, scope, name)
);
GO

-- last: how far a gate with a rate has used it up. opens: when the gate is to be looked at; 0 if it may have room by now.
CREATE TABLE holdfast.gate (
    ns int NOT NULL,
    name nvarchar(220) COLLATE Latin1_General_BIN2 NOT NULL,
    last bigint NOT NULL,
    opens bigint NULL,
    CONSTRAINT holdfast_gate_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_gate_opens ON holdfast.gate (ns, opens) WHERE opens IS NOT NULL;
GO

-- Gates whose room nobody can take until another gate opens: that of the queue or task of all who stand in line there.
CREATE TABLE holdfast.behind (
    ns int NOT NULL,
    gate nvarchar(220) COLLATE Latin1_General_BIN2 NOT NULL,
    other nvarchar(220) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_behind_pkey PRIMARY KEY CLUSTERED (ns, gate, other)
);
GO

-- A job that waits, or has waited, for another. state: how that ended, null while it is pending.
CREATE TABLE holdfast.link (
    ns int NOT NULL,
    waiter char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    state tinyint NULL,
    CONSTRAINT holdfast_link_pkey PRIMARY KEY CLUSTERED (ns, waiter, job)
);
CREATE INDEX holdfast_link_job ON holdfast.link (ns, job, waiter) INCLUDE (state) WHERE state IS NULL;
CREATE INDEX holdfast_link_pending ON holdfast.link (ns, waiter) INCLUDE (state) WHERE state IS NULL;
CREATE INDEX holdfast_link_unmet ON holdfast.link (ns, waiter) WHERE state <> 3;
GO

-- Sequences that a job has halted.
CREATE TABLE holdfast.halt (
    ns int NOT NULL,
    sequence nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_halt_pkey PRIMARY KEY CLUSTERED (ns, sequence)
);
GO

-- The rank of the last job of each fair key of a queue.
CREATE TABLE holdfast.fair (
    ns int NOT NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    last bigint NOT NULL,
    CONSTRAINT holdfast_fair_pkey PRIMARY KEY CLUSTERED (ns, queue, fair_key)
);
CREATE INDEX holdfast_fair_last ON holdfast.fair (ns, queue, last);
GO

-- What is to be looked at by whoever has the flow lock next: a job that was added and waits for others, or is put before
-- another, or was released; or one that ended, was changed or removed, with what it belonged to then.
CREATE TABLE holdfast.note (
    ns int NOT NULL,
    n bigint IDENTITY(1, 1) NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    is_new bit NOT NULL,
    before_id char(36) COLLATE Latin1_General_BIN2 NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    task nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    CONSTRAINT holdfast_note_pkey PRIMARY KEY CLUSTERED (ns, n)
);
GO

-- What is leased, however much waits.
CREATE INDEX holdfast_job_counted ON holdfast.job (ns, queue, task) WHERE worker IS NOT NULL;
CREATE INDEX holdfast_job_at_key ON holdfast.job (ns, limit_key) WHERE limit_key IS NOT NULL AND worker IS NOT NULL;
CREATE INDEX holdfast_job_at_turn ON holdfast.job (ns, sequence) WHERE sequence IS NOT NULL AND worker IS NOT NULL;
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (2, '0002_flow_tables', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0003_adding
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 3) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- The namespace's number; makes it if there is none.
CREATE PROCEDURE holdfast.namespace_v1 @name nvarchar(200), @id int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SELECT @id = n.id FROM holdfast.namespace AS n WHERE n.name = @name;
    IF @id IS NULL
    BEGIN
        BEGIN TRY
            INSERT INTO holdfast.namespace (name) VALUES (@name);
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
        SELECT @id = n.id FROM holdfast.namespace AS n WHERE n.name = @name;
    END
END
GO

-- Fills #new with the jobs of a JSON array; bytes lie one after the other in @bytes.
CREATE PROCEDURE holdfast.open_new_v1 @now bigint, @jobs nvarchar(max), @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    INSERT INTO #new (
        n, id, task, queue, priority, due, job_key, key_ttl, tags, lease, timeout, payload, retry, headers, limit_key, fair_key,
        sequence, halts, after_json, after_any, before_id, held, expires, rank, joined)
    SELECT
        j.n, j.id, j.task, j.queue, j.priority, COALESCE(j.due, @now + COALESCE(j.delay, 0)), j.job_key, j.key_ttl, j.tags, j.lease,
        j.timeout, SUBSTRING(@bytes, j.payload_at, j.payload_size), SUBSTRING(@bytes, j.retry_at, j.retry_size),
        SUBSTRING(@bytes, j.headers_at, j.headers_size), j.limit_key, j.fair_key, j.sequence, j.halts, j.after_json, j.after_any,
        j.before_id, j.held, j.expires, COALESCE(j.due, @now + COALESCE(j.delay, 0)), COALESCE(j.joined, 0)
    FROM OPENJSON(@jobs) WITH (
        n int '$.n', id char(36) '$.id', task nvarchar(200) '$.task', queue nvarchar(200) '$.queue', priority bigint '$.priority',
        due bigint '$.due', delay bigint '$.delay', job_key nvarchar(200) '$.key', key_ttl bigint '$.key_ttl',
        tags nvarchar(max) '$.tags' AS JSON, lease bigint '$.lease', timeout bigint '$.timeout', payload_at int '$.payload_at',
        payload_size int '$.payload_size', retry_at int '$.retry_at', retry_size int '$.retry_size', headers_at int '$.headers_at',
        headers_size int '$.headers_size', limit_key nvarchar(200) '$.limit_key', fair_key nvarchar(200) '$.fair_key',
        sequence nvarchar(200) '$.sequence', halts bit '$.halts', after_json nvarchar(max) '$.after' AS JSON,
        after_any bit '$.after_any', before_id char(36) '$.before', held bit '$.held', expires bigint '$.expires',
        joined bit '$.joined'
    ) AS j;
END
GO

-- Takes a key for a job if nobody holds it; else @holder is the job that does.
CREATE PROCEDURE holdfast.take_key_v1
    @ns int, @key nvarchar(200), @job char(36), @ttl bigint, @now bigint, @holder char(36) OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @until bigint = CASE WHEN @ttl > 0 THEN @now + @ttl END;
    DECLARE @found char(36);
    DECLARE @found_until bigint;
    DECLARE @rounds int = 0;
    WHILE 1 = 1
    BEGIN
        SET @rounds = @rounds + 1;
        IF @rounds > 100
            THROW 50002, 'this transaction does not see what others have committed: begin it with READ COMMITTED', 1;
        SET @holder = NULL;
        SET @found = NULL;
        BEGIN TRY
            INSERT INTO holdfast.job_key (ns, name, job, until)
            SELECT @ns, @key, @job, @until
            WHERE NOT EXISTS (
                SELECT 1 FROM holdfast.job_key AS k WHERE k.ns = @ns AND k.name = @key);
            IF @@ROWCOUNT = 1
                RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
        SELECT @found = k.job, @found_until = k.until FROM holdfast.job_key AS k WHERE k.ns = @ns AND k.name = @key;
        IF @found IS NULL
            CONTINUE;
        IF @found <> @job AND (
            EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @found)
            OR (@found_until > @now AND EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @found)))
        BEGIN
            SET @holder = @found;
            RETURN;
        END
        UPDATE holdfast.job_key SET job = @job, until = @until
        WHERE ns = @ns AND name = @key AND job = @found AND COALESCE(until, 0) = COALESCE(@found_until, 0);
        IF @@ROWCOUNT = 1
            RETURN;
    END
END
GO

-- Takes those keys of #key that nobody holds, in the order of their names, so that two such calls do not wait for each other.
-- Until a job gets one it belongs to none.
CREATE PROCEDURE holdfast.keep_keys_v1 @ns int, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @key nvarchar(200);
    DECLARE @holder char(36);
    IF (SELECT COUNT(*) FROM #key) < 2
        RETURN;
    SELECT @key = MIN(k.name) FROM #key AS k;
    WHILE @key IS NOT NULL
    BEGIN
        EXEC holdfast.take_key_v1 @ns, @key, '', NULL, @now, @holder OUTPUT;
        SELECT @key = MIN(k.name) FROM #key AS k WHERE k.name > @key;
    END
END
GO

-- Lets those keys of #key go that no job got.
CREATE PROCEDURE holdfast.free_keys_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE ns = @ns AND job = '' AND name IN (SELECT k.name FROM #key AS k);
END
GO

-- Adds one job of #new, or says there what stands in its place.
CREATE PROCEDURE holdfast.add_one_v1 @ns int, @now bigint, @n int
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @id char(36);
    DECLARE @key nvarchar(200);
    DECLARE @ttl bigint;
    DECLARE @holder char(36);
    DECLARE @is_made bit;
    DECLARE @rounds int = 0;
    SELECT @id = w.id, @key = w.job_key, @ttl = w.key_ttl FROM #new AS w WHERE w.n = @n;
    WHILE 1 = 1
    BEGIN
        SET @rounds = @rounds + 1;
        IF @rounds > 100
            THROW 50002, 'this transaction does not see what others have committed: begin it with READ COMMITTED', 1;
        IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @id)
            OR EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @id)
        BEGIN
            UPDATE #new SET stood = @id, stood_by = 'id' WHERE n = @n;
            RETURN;
        END
        IF @key IS NOT NULL
        BEGIN
            EXEC holdfast.take_key_v1 @ns, @key, @id, @ttl, @now, @holder OUTPUT;
            IF @holder IS NOT NULL
            BEGIN
                IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @holder)
                    OR EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @holder)
                BEGIN
                    UPDATE #new SET stood = @holder, stood_by = 'key' WHERE n = @n;
                    RETURN;
                END
                CONTINUE;
            END
        END
        SET @is_made = 1;
        BEGIN TRY
            INSERT INTO holdfast.job (
                ns, id, task, queue, payload, priority, due, rank, ready, created, job_key, tags, lease, timeout, retry, headers,
                limit_key, fair_key, sequence, place, halts, after_any, held, expires, gate)
            SELECT
                @ns, w.id, w.task, w.queue, w.payload, w.priority, w.due, w.rank,
                CASE WHEN w.after_json IS NULL AND w.held IS NULL THEN CASE WHEN w.due <= @now THEN 1 ELSE 0 END END,
                @now, w.job_key, w.tags, w.lease, w.timeout, w.retry, w.headers, w.limit_key, w.fair_key, w.sequence, w.place,
                w.halts, w.after_any, w.held, @now + w.expires,
                CASE WHEN w.after_json IS NOT NULL OR w.held IS NOT NULL THEN 'after' END
            FROM #new AS w WHERE w.n = @n;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
            SET @is_made = 0;
        END CATCH
        IF @is_made = 1
        BEGIN
            IF NOT EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @id)
                RETURN;
            -- Finished while this was under way: the live row was gone before the insert, the other is visible now.
            DELETE FROM holdfast.job WHERE ns = @ns AND id = @id;
        END
        IF @key IS NOT NULL
            DELETE FROM holdfast.job_key
            WHERE ns = @ns AND name = @key AND job = @id
                AND NOT EXISTS (SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @id AND s.job_key = @key);
    END
END
GO

-- Adds the jobs of #new that have no keys, all at once; @is_done is 0 if somebody else is adding one of them.
CREATE PROCEDURE holdfast.add_all_v1 @ns int, @now bigint, @is_done bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SET @is_done = 1;
    UPDATE #new SET stood = id, stood_by = 'id'
    WHERE EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = #new.id)
        OR EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = #new.id)
        OR EXISTS (SELECT 1 FROM #new AS o WHERE o.id = #new.id AND o.n < #new.n);
    BEGIN TRY
        INSERT INTO holdfast.job (
            ns, id, task, queue, payload, priority, due, rank, ready, created, tags, lease, timeout, retry, headers, limit_key,
            fair_key, sequence, place, halts, after_any, held, expires, gate)
        SELECT
            @ns, w.id, w.task, w.queue, w.payload, w.priority, w.due, w.rank,
            CASE WHEN w.after_json IS NULL AND w.held IS NULL THEN CASE WHEN w.due <= @now THEN 1 ELSE 0 END END,
            @now, w.tags, w.lease, w.timeout, w.retry, w.headers, w.limit_key, w.fair_key, w.sequence, w.place, w.halts,
            w.after_any, w.held, @now + w.expires,
            CASE WHEN w.after_json IS NOT NULL OR w.held IS NOT NULL THEN 'after' END
        FROM #new AS w WHERE w.stood IS NULL
        ORDER BY w.id;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() NOT IN (2601, 2627)
            THROW;
        UPDATE #new SET stood = NULL, stood_by = NULL;
        SET @is_done = 0;
        RETURN;
    END CATCH
    -- Finished while this was under way: the live row was gone before the insert, the other is visible now.
    UPDATE #new SET stood = id, stood_by = 'id'
    WHERE stood IS NULL AND EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = #new.id);
    IF @@ROWCOUNT > 0
        DELETE FROM holdfast.job WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE ns = @ns AND id IN (SELECT w.id FROM #new AS w WHERE w.stood = w.id)
            AND EXISTS (SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = holdfast.job.id);
END
GO

-- Adds the jobs of #new, in the order of n. Keeps their keys first, unless #key has them already.
CREATE PROCEDURE holdfast.add_new_v1 @ns int, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int = 0;
    DECLARE @is_done bit = 0;
    DECLARE @has_flow bit = 0;
    DECLARE @waits bit = CASE WHEN EXISTS (SELECT 1 FROM #new AS w WHERE w.joined = 1) THEN 0 ELSE 1 END;
    IF @waits = 1 AND EXISTS (SELECT 1 FROM #new AS w WHERE w.after_json IS NOT NULL OR w.before_id IS NOT NULL)
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @has_flow OUTPUT;
    IF EXISTS (SELECT 1 FROM #new AS w WHERE w.sequence IS NOT NULL)
    BEGIN
        -- One by one: in which order a set gets its numbers is not said.
        SELECT @n = MIN(w.n) FROM #new AS w WHERE w.sequence IS NOT NULL;
        WHILE @n IS NOT NULL
        BEGIN
            UPDATE #new SET place = NEXT VALUE FOR holdfast.place WHERE n = @n;
            SELECT @n = MIN(w.n) FROM #new AS w WHERE w.sequence IS NOT NULL AND w.n > @n;
        END
    END
    IF NOT EXISTS (SELECT 1 FROM #key)
    BEGIN
        INSERT INTO #key (name) SELECT DISTINCT w.job_key FROM #new AS w WHERE w.job_key IS NOT NULL;
        EXEC holdfast.keep_keys_v1 @ns, @now;
    END
    IF NOT EXISTS (SELECT 1 FROM #new AS w WHERE w.job_key IS NOT NULL)
        EXEC holdfast.add_all_v1 @ns, @now, @is_done OUTPUT;
    SELECT @n = MIN(w.n) FROM #new AS w WHERE @is_done = 0;
    WHILE @n IS NOT NULL
    BEGIN
        EXEC holdfast.add_one_v1 @ns, @now, @n;
        SELECT @n = MIN(w.n) FROM #new AS w WHERE w.n > @n;
    END
    IF EXISTS (SELECT 1 FROM #new AS w WHERE w.fair_key IS NOT NULL AND w.stood IS NULL)
        EXEC holdfast.rank_new_v1 @ns, @now, @waits;
    IF EXISTS (
        SELECT 1 FROM #new AS w
        WHERE w.sequence IS NOT NULL OR w.after_json IS NOT NULL OR w.before_id IS NOT NULL OR w.held IS NOT NULL)
        EXEC holdfast.link_new_v1 @ns, @now, @has_flow;
END
GO

-- Adds jobs. Gives the store's now; what stands in the place of those that were not added, and what is other about it; and
-- what was not known of the others before: rank, how many are unmet, where it is parked.
CREATE PROCEDURE holdfast.add_v1 @ns int, @jobs nvarchar(max), @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    CREATE TABLE #new (
        n int NOT NULL PRIMARY KEY,
        id char(36) COLLATE Latin1_General_BIN2 NOT NULL,
        task nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        priority bigint NOT NULL,
        due bigint NOT NULL,
        rank bigint NOT NULL,
        place bigint NULL,
        job_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        key_ttl bigint NULL,
        tags nvarchar(max) NULL,
        lease bigint NULL,
        timeout bigint NULL,
        payload varbinary(max) NOT NULL,
        retry varbinary(max) NULL,
        headers varbinary(max) NULL,
        limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        halts bit NULL,
        after_json nvarchar(max) NULL,
        after_any bit NULL,
        before_id char(36) COLLATE Latin1_General_BIN2 NULL,
        held bit NULL,
        expires bigint NULL,
        joined bit NOT NULL,
        stood char(36) COLLATE Latin1_General_BIN2 NULL,
        stood_by varchar(3) NULL
    );
    CREATE TABLE #key (name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
    DECLARE @now bigint;
    BEGIN TRY
        BEGIN TRANSACTION;
        SET @now = holdfast.now_v1();
        EXEC holdfast.open_new_v1 @now, @jobs, @bytes;
        EXEC holdfast.add_new_v1 @ns, @now;
        EXEC holdfast.free_keys_v1 @ns;
        SELECT @now AS now;
        SELECT
            w.n,
            CASE WHEN s.task <> w.task OR s.payload <> w.payload OR DATALENGTH(s.payload) <> DATALENGTH(w.payload)
                OR (w.stood_by = 'id' AND s.queue <> w.queue) THEN w.stood_by END AS conflict,
            s.*
        FROM #new AS w
        INNER JOIN holdfast.jobs AS s ON s.ns = @ns AND s.id = w.stood
        ORDER BY w.n;
        SELECT w.n, j.rank, j.unmet, j.gate
        FROM #new AS w
        INNER JOIN holdfast.job AS j ON j.ns = @ns AND j.id = w.id
        WHERE w.stood IS NULL AND (w.fair_key IS NOT NULL OR w.after_json IS NOT NULL OR w.held IS NOT NULL)
        ORDER BY w.n;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (3, '0003_adding', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0004_moving
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 4) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Whether a move that no longer applies is a repeat; a late one is remembered as superseded.
CREATE PROCEDURE holdfast.late_v1
    @ns int, @worker nvarchar(200), @job char(36), @token bigint, @outcome varchar(20), @if_expired bit, @is_repeat bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @holder nvarchar(200);
    DECLARE @closer nvarchar(200);
    DECLARE @told varchar(20);
    SELECT
        @holder = a.worker, @closer = COALESCE(a.closer, a.worker),
        @told = CASE a.outcome WHEN 'superseded' THEN 'lost' ELSE a.outcome END
    FROM holdfast.attempt AS a WHERE a.ns = @ns AND a.job = @job AND a.token = @token;
    SET @is_repeat = CASE WHEN @told = @outcome AND @closer COLLATE Latin1_General_BIN2 = @worker THEN 1 ELSE 0 END;
    IF @is_repeat = 0 AND @told = 'lost' AND @holder COLLATE Latin1_General_BIN2 = @worker AND @if_expired = 0
        UPDATE holdfast.attempt WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) SET outcome = 'superseded'
        WHERE ns = @ns AND job = @job AND token = @token;
END
GO

-- What a start says of a lease.
CREATE PROCEDURE holdfast.start_v1 @ns int, @worker nvarchar(200), @job char(36), @token bigint, @until bigint, @started bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @is_new bit = 1;
    BEGIN TRY
        INSERT INTO holdfast.lease (ns, job, token, worker, until, started, changes, running)
        SELECT @ns, @job, @token, @worker, @until, @started, 1, 1
        WHERE NOT EXISTS (
            SELECT 1 FROM holdfast.lease AS l WHERE l.ns = @ns AND l.job = @job AND l.token = @token);
        SET @is_new = @@ROWCOUNT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() NOT IN (2601, 2627)
            THROW;
        SET @is_new = 0;
    END CATCH
    IF @is_new = 0
        UPDATE holdfast.lease SET running = 1, started = COALESCE(started, @started), changes = changes + 1
        WHERE ns = @ns AND job = @job AND token = @token;
END
GO

-- Locks the row that tells of a lease, and makes it if there is none: waits for a heartbeat that is just prolonging the
-- lease, and keeps the next one waiting.
CREATE PROCEDURE holdfast.hold_lease_v1 @ns int, @job char(36), @token bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    UPDATE holdfast.lease WITH (UPDLOCK, ROWLOCK) SET worker = worker WHERE ns = @ns AND job = @job AND token = @token;
    IF @@ROWCOUNT = 0
    BEGIN
        BEGIN TRY
            INSERT INTO holdfast.lease (ns, job, token, worker, until, started)
            SELECT j.ns, j.id, j.token, j.worker, j.lease_until, j.started
            FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job AND j.token = @token AND j.worker IS NOT NULL;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
            UPDATE holdfast.lease WITH (UPDLOCK, ROWLOCK) SET worker = worker
            WHERE ns = @ns AND job = @job AND token = @token;
        END CATCH
    END
END
GO

-- Locks what the moves of #move for one job write to: the job, if they end its attempt, and what tells of the lease, if they
-- start it or take it back. A reclaim does not wait for the job: whoever has it is just ending the attempt. Nor does a start
-- ask for it: its own handler may be ending the attempt in a transaction that stays open for long. What somebody keeps for
-- long is refused.
CREATE PROCEDURE holdfast.lock_move_v1 @ns int, @job char(36)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @token bigint;
    BEGIN TRY
        UPDATE holdfast.job WITH (UPDLOCK, ROWLOCK) SET seq = seq
        WHERE ns = @ns AND id = @job AND worker IS NOT NULL AND token IN (
            SELECT m.token FROM #move AS m WHERE m.job = @job AND m.if_expired = 0 AND m.outcome IS NOT NULL);
        UPDATE holdfast.job WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK) SET seq = seq
        WHERE ns = @ns AND id = @job AND worker IS NOT NULL AND token IN (
            SELECT m.token FROM #move AS m WHERE m.job = @job AND m.if_expired = 1);
        IF @@ROWCOUNT = 1
            UPDATE #move SET is_had = 1 WHERE job = @job AND if_expired = 1;
        SELECT @token = MIN(m.token) FROM #move AS m WHERE m.job = @job AND (m.is_had = 1 OR m.outcome IS NULL);
        WHILE @token IS NOT NULL
        BEGIN
            EXEC holdfast.hold_lease_v1 @ns, @job, @token;
            SELECT @token = MIN(m.token) FROM #move AS m
            WHERE m.job = @job AND (m.is_had = 1 OR m.outcome IS NULL) AND m.token > @token;
        END
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
            THROW;
        UPDATE #move SET verdict = 'r' WHERE job = @job;
    END CATCH
END
GO

-- Locks what the moves of #move write to, job by job in the order of their ids, so that two such calls do not wait for each
-- other.
CREATE PROCEDURE holdfast.lock_moves_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @job char(36);
    SELECT @job = MIN(m.job) FROM #move AS m;
    WHILE @job IS NOT NULL
    BEGIN
        EXEC holdfast.lock_move_v1 @ns, @job;
        SELECT @job = MIN(m.job) FROM #move AS m WHERE m.job > @job;
    END
END
GO

-- Adds the jobs that come with a move, if there are any. Makes use of #new.
CREATE PROCEDURE holdfast.add_children_v1 @ns int, @now bigint, @children nvarchar(max), @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    IF @children IS NOT NULL
    BEGIN
        DELETE FROM #new;
        EXEC holdfast.open_new_v1 @now, @children, @bytes;
        EXEC holdfast.add_new_v1 @ns, @now;
    END
END
GO

-- One move of #move, the one with this n: its verdict is put there. "sources" has the states from which its path may be gone.
-- What it writes to is locked.
CREATE PROCEDURE holdfast.move_v1 @ns int, @worker nvarchar(200), @now bigint, @n int, @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @job char(36);
    DECLARE @token bigint;
    DECLARE @sources varchar(10);
    DECLARE @to tinyint;
    DECLARE @outcome varchar(20);
    DECLARE @elapsed bigint;
    DECLARE @if_expired bit;
    DECLARE @joined bit;
    DECLARE @children nvarchar(max);
    DECLARE @events nvarchar(max);
    DECLARE @holder nvarchar(200);
    DECLARE @state tinyint;
    DECLARE @until bigint;
    DECLARE @started bigint;
    DECLARE @queue nvarchar(200);
    DECLARE @task nvarchar(200);
    DECLARE @limit_key nvarchar(200);
    DECLARE @sequence nvarchar(200);
    DECLARE @key nvarchar(200);
    DECLARE @is_had bit;
    DECLARE @is_fit bit = 0;
    SELECT
        @job = m.job, @token = m.token, @sources = m.sources, @to = m.to_state, @outcome = m.outcome, @elapsed = m.elapsed,
        @if_expired = m.if_expired, @is_had = m.is_had, @joined = m.joined, @children = m.children, @events = m.events
    FROM #move AS m WHERE m.n = @n;
    UPDATE #move SET verdict = 'r' WHERE n = @n;
    SELECT
        @holder = v.worker, @state = v.state, @until = v.lease_until, @started = COALESCE(v.started, @now - @elapsed),
        @queue = v.queue, @task = v.task, @limit_key = v.limit_key, @sequence = v.sequence, @key = v.job_key,
        @is_fit = CASE
            WHEN CHARINDEX(CAST(v.state AS varchar(1)), @sources) = 0 THEN 0
            WHEN @if_expired = 1 AND (@is_had = 0 OR v.lease_until > @now) THEN 0
            WHEN @if_expired = 0 AND v.worker <> @worker COLLATE Latin1_General_BIN2 THEN 0
            WHEN @outcome IS NULL AND v.lease_until <= @now THEN 0
            ELSE 1 END
    FROM holdfast.live AS v WHERE v.ns = @ns AND v.id = @job AND v.token = @token AND v.worker IS NOT NULL;
    IF @outcome IS NULL
    BEGIN
        IF @is_fit = 1
        BEGIN
            SET @started = COALESCE(@started, @now);
            EXEC holdfast.start_v1 @ns, @holder, @job, @token, @until, @started;
            -- If that waited for a reclaim, the job is gone by now.
            UPDATE #move SET verdict = 'a' WHERE n = @n AND EXISTS (
                SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job AND j.token = @token AND j.worker = @worker);
            IF @@ROWCOUNT = 1
                EXEC holdfast.add_children_v1 @ns, @now, @children, @bytes;
        END
        ELSE IF @state = 2 AND @holder COLLATE Latin1_General_BIN2 = @worker AND @sources <> ''
            UPDATE #move SET verdict = 'a' WHERE n = @n;
        RETURN;
    END
    IF @is_fit = 0
    BEGIN
        EXEC holdfast.late_v1 @ns, @worker, @job, @token, @outcome, @if_expired, @is_fit OUTPUT;
        IF @is_fit = 1
            UPDATE #move SET verdict = 'a' WHERE n = @n;
        RETURN;
    END
    UPDATE #move SET verdict = 'a' WHERE n = @n;
    INSERT INTO holdfast.attempt (ns, job, token, run, worker, closer, started, finished, outcome, reason, error)
    SELECT
        @ns, j.id, j.token, j.run, j.worker, CASE WHEN j.worker <> @worker THEN @worker END, @started, @now, m.outcome, m.reason,
        m.error
    FROM #move AS m
    INNER JOIN holdfast.job AS j ON j.ns = @ns AND j.id = m.job
    WHERE m.n = @n;
    IF @to IN (0, 5)
        UPDATE j SET
            state = m.to_state, version = v.version + 1, due = COALESCE(@now + m.delay, j.due),
            rank = CASE WHEN j.fair_key IS NULL THEN COALESCE(@now + m.delay, j.due) ELSE j.rank END,
            ready = CASE WHEN COALESCE(@now + m.delay, j.due) <= @now THEN 1 ELSE 0 END, worker = NULL, seq = NULL,
            lease_until = NULL, started = @started, cancel_asked = v.cancel_asked, progress = v.progress,
            progress_note = v.progress_note, failures = m.failures, lost = m.lost, suspect = m.suspect, reason = m.reason,
            error = m.error, result = m.result
        FROM holdfast.job AS j
        INNER JOIN #move AS m ON m.n = @n AND m.job = j.id
        INNER JOIN holdfast.live AS v ON v.ns = j.ns AND v.id = j.id
        WHERE j.ns = @ns AND j.id = @job;
    ELSE
    BEGIN
        INSERT INTO holdfast.done (
            ns, id, task, queue, payload, state, priority, due, rank, created, finished, run, failures, lost, suspect, version,
            token, lease, timeout, retry, headers, job_key, tags, started, cancel_asked, progress, progress_note, reason, error,
            result, limit_key, fair_key, sequence, place, halts, after_any, expires, unmet)
        SELECT
            v.ns, v.id, v.task, v.queue, v.payload, m.to_state, v.priority, v.due, v.rank, v.created, @now, v.run, m.failures,
            m.lost, m.suspect, v.version + 1, v.token, v.lease, v.timeout, v.retry, v.headers, v.job_key, v.tags, @started,
            v.cancel_asked, v.progress, v.progress_note, m.reason, m.error, m.result, v.limit_key, v.fair_key, v.sequence,
            v.place, v.halts, v.after_any, v.expires, v.unmet
        FROM #move AS m
        INNER JOIN holdfast.live AS v ON v.ns = @ns AND v.id = m.job
        WHERE m.n = @n;
        DELETE FROM holdfast.job WHERE ns = @ns AND id = @job;
        INSERT INTO holdfast.tally (ns, queue, state, jobs) VALUES (@ns, @queue, @to, 1);
        IF @key IS NOT NULL
            DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            WHERE ns = @ns AND name = @key AND job = @job AND (until IS NULL OR until <= @now);
    END
    -- In a transaction of others always: when it commits, something may wait for this that does not yet.
    IF @joined = 1
        OR EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        EXEC holdfast.note_v1 @ns, @job, @queue, @task, @limit_key, @sequence;
    EXEC holdfast.add_children_v1 @ns, @now, @children, @bytes;
    IF @events IS NOT NULL
        EXEC holdfast.append_v1 @ns, @now, @events, @bytes;
END
GO

-- The same, for one that somebody may have locked for long: it is then refused alone.
CREATE PROCEDURE holdfast.try_move_v1 @ns int, @worker nvarchar(200), @now bigint, @n int, @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SAVE TRANSACTION holdfast_move;
    BEGIN TRY
        EXEC holdfast.move_v1 @ns, @worker, @now, @n, @bytes;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
            THROW;
        ROLLBACK TRANSACTION holdfast_move;
        UPDATE #move SET verdict = 'r' WHERE n = @n;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (4, '0004_moving', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0005_moves
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 5) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Notes that the jobs of #gone ended, where something may have waited for that.
CREATE PROCEDURE holdfast.note_gone_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        INSERT INTO holdfast.note (ns, job, is_new, queue, task, limit_key, sequence)
        SELECT @ns, g.id, 0, g.queue, g.task, g.limit_key, g.sequence FROM #gone AS g;
END
GO

-- Those successes of #move that have nothing to tell but their results, all at once.
CREATE PROCEDURE holdfast.complete_v1 @ns int, @worker nvarchar(200), @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    SELECT TOP (0) * INTO #gone FROM holdfast.job;
    DELETE FROM j
    OUTPUT deleted.* INTO #gone
    FROM holdfast.job AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    INNER JOIN #move AS m ON m.job = j.id AND m.token = j.token
    WHERE j.ns = @ns AND m.is_plain = 1 AND m.verdict IS NULL AND j.worker = @worker;
    INSERT INTO holdfast.done (
        ns, id, task, queue, payload, state, priority, due, rank, created, finished, run, failures, lost, suspect, version, token,
        lease, timeout, retry, headers, job_key, tags, started, cancel_asked, progress, progress_note, result, limit_key,
        fair_key, sequence, place, halts, after_any, expires, unmet)
    SELECT
        g.ns, g.id, g.task, g.queue, g.payload, 3, g.priority, g.due, g.rank, g.created, @now, g.run, 0, 0, 0,
        g.version + COALESCE(l.changes, 0) + 1, g.token, g.lease, g.timeout, g.retry, g.headers, g.job_key, g.tags,
        COALESCE(l.started, @now - m.elapsed), CASE WHEN g.cancel_asked = 1 OR l.cancel_asked = 1 THEN 1 ELSE 0 END,
        CASE WHEN l.job IS NULL THEN g.progress ELSE l.progress END,
        CASE WHEN l.job IS NULL THEN g.progress_note ELSE l.progress_note END, m.result, g.limit_key, g.fair_key, g.sequence,
        g.place, g.halts, g.after_any, g.expires, g.unmet
    FROM #gone AS g
    INNER JOIN #move AS m ON m.job = g.id AND m.token = g.token AND m.is_plain = 1
    LEFT JOIN holdfast.lease AS l ON l.ns = g.ns AND l.job = g.id AND l.token = g.token;
    INSERT INTO holdfast.attempt (ns, job, token, run, worker, started, finished, outcome)
    SELECT d.ns, d.id, d.token, d.run, @worker, d.started, @now, 'success'
    FROM #gone AS g
    INNER JOIN holdfast.done AS d ON d.ns = g.ns AND d.id = g.id;
    INSERT INTO holdfast.tally (ns, queue, state, jobs) SELECT g.ns, g.queue, 3, COUNT(*) FROM #gone AS g GROUP BY g.ns, g.queue;
    IF EXISTS (SELECT 1 FROM #gone AS g WHERE g.job_key IS NOT NULL)
        DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE ns = @ns AND (until IS NULL OR until <= @now) AND name IN (SELECT g.job_key FROM #gone AS g)
            AND job IN (SELECT g.id FROM #gone AS g);
    UPDATE #move SET verdict = 'a'
    WHERE is_plain = 1 AND EXISTS (SELECT 1 FROM #gone AS g WHERE g.id = #move.job AND g.token = #move.token);
    EXEC holdfast.note_gone_v1 @ns;
END
GO

-- Fills #text with texts, counted from 0: each has the character behind it that comes first of all.
CREATE PROCEDURE holdfast.open_texts_v1 @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @mark nvarchar(1) = SUBSTRING(@texts, 1, 1);
    DECLARE @n int = 0;
    DECLARE @at int = 2;
    DECLARE @end int;
    WHILE 1 = 1
    BEGIN
        SET @end = CHARINDEX(@mark COLLATE Latin1_General_BIN2, @texts COLLATE Latin1_General_BIN2, @at);
        IF @end IS NULL OR @end = 0
            RETURN;
        INSERT INTO #text (n, value) VALUES (@n, SUBSTRING(@texts COLLATE Latin1_General_BIN2, @at, @end - @at));
        SET @n = @n + 1;
        SET @at = @end + 1;
    END
END
GO

-- Keeps the keys of the jobs that come with the moves of #move, all before any is used.
CREATE PROCEDURE holdfast.keep_children_keys_v1 @ns int, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int;
    DECLARE @children nvarchar(max);
    SELECT @n = MIN(m.n) FROM #move AS m WHERE m.children IS NOT NULL;
    WHILE @n IS NOT NULL
    BEGIN
        SELECT @children = m.children FROM #move AS m WHERE m.n = @n;
        INSERT INTO #key (name)
        SELECT DISTINCT c.name COLLATE Latin1_General_BIN2 FROM OPENJSON(@children) WITH (name nvarchar(200) '$.key') AS c
        WHERE c.name IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM #key AS k WHERE k.name = c.name COLLATE Latin1_General_BIN2);
        SELECT @n = MIN(m.n) FROM #move AS m WHERE m.children IS NOT NULL AND m.n > @n;
    END
    EXEC holdfast.keep_keys_v1 @ns, @now;
END
GO

-- Moves in order; puts a letter for each into #verdicts, "a" if it was accepted, "r" if it was refused.
CREATE PROCEDURE holdfast.moves_v1
    @ns int, @worker nvarchar(200), @now bigint, @moves nvarchar(max), @bytes varbinary(max), @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int;
    CREATE TABLE #new (
        n int NOT NULL PRIMARY KEY,
        id char(36) COLLATE Latin1_General_BIN2 NOT NULL,
        task nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        priority bigint NOT NULL,
        due bigint NOT NULL,
        rank bigint NOT NULL,
        place bigint NULL,
        job_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        key_ttl bigint NULL,
        tags nvarchar(max) NULL,
        lease bigint NULL,
        timeout bigint NULL,
        payload varbinary(max) NOT NULL,
        retry varbinary(max) NULL,
        headers varbinary(max) NULL,
        limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        halts bit NULL,
        after_json nvarchar(max) NULL,
        after_any bit NULL,
        before_id char(36) COLLATE Latin1_General_BIN2 NULL,
        held bit NULL,
        expires bigint NULL,
        joined bit NOT NULL,
        stood char(36) COLLATE Latin1_General_BIN2 NULL,
        stood_by varchar(3) NULL
    );
    CREATE TABLE #move (
        n int NOT NULL PRIMARY KEY,
        job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
        token bigint NOT NULL,
        sources varchar(10) NOT NULL,
        to_state tinyint NOT NULL,
        outcome varchar(20) NULL,
        elapsed bigint NULL,
        delay bigint NULL,
        failures int NOT NULL,
        lost int NOT NULL,
        suspect bit NOT NULL,
        reason nvarchar(max) NULL,
        error nvarchar(max) NULL,
        result varbinary(max) NULL,
        if_expired bit NOT NULL,
        is_had bit NOT NULL,
        is_plain bit NOT NULL,
        joined bit NOT NULL,
        children nvarchar(max) NULL,
        events nvarchar(max) NULL,
        verdict char(1) NULL
    );
    CREATE TABLE #text (n int NOT NULL PRIMARY KEY, value nvarchar(max) NOT NULL);
    CREATE TABLE #key (name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
    IF @texts IS NOT NULL
        EXEC holdfast.open_texts_v1 @texts;
    INSERT INTO #move (
        n, job, token, sources, to_state, outcome, elapsed, delay, failures, lost, suspect, reason, error, result, if_expired,
        is_had, is_plain, joined, children, events)
    SELECT
        j.n, j.job, j.token, j.sources, j.to_state, j.outcome, j.elapsed, j.delay, j.failures, j.lost, j.suspect, r.value,
        e.value, SUBSTRING(@bytes, j.result_at, j.result_size), j.if_expired, 0, j.is_plain, j.joined, j.children, j.events
    FROM OPENJSON(@moves) WITH (
        n int '$.n', job char(36) '$.job', token bigint '$.token', sources varchar(10) '$.sources', to_state tinyint '$.to',
        outcome varchar(20) '$.outcome', elapsed bigint '$.elapsed', delay bigint '$.delay', failures int '$.failures',
        lost int '$.lost', suspect bit '$.suspect', reason int '$.reason', error int '$.error',
        result_at int '$.result_at', result_size int '$.result_size', if_expired bit '$.if_expired', is_plain bit '$.is_plain',
        joined bit '$.joined',
        children nvarchar(max) '$.children' AS JSON, events nvarchar(max) '$.events' AS JSON
    ) AS j
    LEFT JOIN #text AS r ON r.n = j.reason
    LEFT JOIN #text AS e ON e.n = j.error;
    EXEC holdfast.lock_moves_v1 @ns;
    EXEC holdfast.keep_children_keys_v1 @ns, @now;
    IF EXISTS (SELECT 1 FROM #move AS m WHERE m.is_plain = 1)
        EXEC holdfast.complete_v1 @ns, @worker, @now;
    SELECT @n = MIN(m.n) FROM #move AS m WHERE m.verdict IS NULL;
    WHILE @n IS NOT NULL
    BEGIN
        EXEC holdfast.try_move_v1 @ns, @worker, @now, @n, @bytes;
        SELECT @n = MIN(m.n) FROM #move AS m WHERE m.verdict IS NULL;
    END
    EXEC holdfast.free_keys_v1 @ns;
    INSERT INTO #verdicts (letters)
    SELECT STRING_AGG(CAST(m.verdict AS varchar(max)), '') WITHIN GROUP (ORDER BY m.n) FROM #move AS m;
END
GO

-- One move as part of the caller's transaction; it does not wait for anybody but whoever has the job.
CREATE PROCEDURE holdfast.move_in_v1
    @ns int, @worker nvarchar(200), @moves nvarchar(max), @bytes varbinary(max), @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    CREATE TABLE #verdicts (letters varchar(max) NULL);
    BEGIN TRY
        EXEC holdfast.moves_v1 @ns, @worker, @now, @moves, @bytes, @texts;
        SELECT v.letters FROM #verdicts AS v;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (5, '0005_moves', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0006_ticking
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 6) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Enters a call that may end or claim jobs: takes the flow lock, shared where nothing is held back, alone where something may
-- be, and says which; @is_late if it is not to be had soon.
CREATE PROCEDURE holdfast.enter_flow_v1 @ns int, @flows bit OUTPUT, @is_late bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @got bit;
    SET @flows = CASE WHEN EXISTS (
        SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns) THEN 1 ELSE 0 END;
    SET @is_late = 0;
    IF @flows = 0
    BEGIN
        EXEC holdfast.take_flow_v1 @ns, 'Shared', 1, @got OUTPUT;
        IF @got = 1
            AND NOT EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
            RETURN;
        -- Who shares the lock does not ask to have it alone: two such would wait for each other.
        SET @flows = 1;
        SET @is_late = 1;
        RETURN;
    END
    EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
    IF @got = 0
        SET @is_late = 1;
END
GO

-- Claims ready jobs of one queue in order, passing over those that somebody has; @got tells how many, @more whether there are
-- others.
CREATE PROCEDURE holdfast.claim_v1
    @ns int, @worker nvarchar(200), @seq bigint, @queue nvarchar(200), @turn int, @limit int, @lease bigint, @now bigint,
    @got int OUTPUT, @more int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @tries int = 40;
    SET @got = 0;
    SET @more = 1;
    -- Others may have taken some of those that were found; where hints are ignored, as often as there are others.
    WHILE @tries > 0 AND @more > 0 AND @got < @limit
    BEGIN
        UPDATE holdfast.job WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK) SET
            state = 1, ready = NULL, run = run + 1, version = version + 1,
            token = CASE WHEN token >= @now THEN token + 1 ELSE @now END, worker = @worker, seq = @seq,
            lease_until = @now + COALESCE(lease, @lease), started = NULL, reason = NULL, progress = NULL, progress_note = NULL
        OUTPUT inserted.id, @turn INTO #claimed (id, turn)
        WHERE ns = @ns AND ready = 1 AND id IN (
            SELECT TOP (@limit - @got) i.id
            FROM holdfast.job AS i WITH (READPAST, READCOMMITTEDLOCK)
            WHERE i.ns = @ns AND i.queue = @queue AND i.ready = 1 AND i.sequence IS NULL AND i.task IN (SELECT t.name FROM #task AS t)
            ORDER BY i.priority, i.rank, i.id);
        SET @got = @got + @@ROWCOUNT;
        SET @tries = @tries - 1;
        SELECT @more = COUNT(*) FROM (
            SELECT TOP (1) i.id
            FROM holdfast.job AS i WITH (READPAST, READCOMMITTEDLOCK)
            WHERE i.ns = @ns AND i.queue = @queue AND i.ready = 1 AND i.sequence IS NULL AND i.task IN (SELECT t.name FROM #task AS t)
        ) AS found;
    END
END
GO

-- Makes jobs of the queue ready that are due now, passing over those that somebody has.
CREATE PROCEDURE holdfast.promote_v1 @ns int, @queue nvarchar(200), @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE holdfast.job WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK) SET ready = 1
    WHERE ns = @ns AND ready = 0 AND id IN (
        SELECT TOP (2000) i.id
        FROM holdfast.job AS i WITH (READPAST, READCOMMITTEDLOCK)
        WHERE i.ns = @ns AND i.queue = @queue AND i.ready = 0 AND i.due <= @now
        ORDER BY i.due);
END
GO

-- The tick: moves, then promotion and claim of what is wanted. Gives the claimed jobs; what the worker holds that was asked to
-- stop; which of the wanted queues (1) and tasks (2) are paused; and at last how things stand.
CREATE PROCEDURE holdfast.tick_v1
    @ns int, @worker nvarchar(200), @seq bigint, @moves nvarchar(max), @bytes varbinary(max), @texts nvarchar(max),
    @queues nvarchar(max), @tasks nvarchar(max), @limit int, @lease bigint, @repeat bit
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @flows bit;
    DECLARE @is_late bit;
    DECLARE @freed int = 0;
    DECLARE @left int = @limit;
    DECLARE @got int;
    DECLARE @more int = 0;
    DECLARE @is_cut bit = 0;
    DECLARE @turn int;
    DECLARE @queue nvarchar(200);
    DECLARE @next bigint;
    DECLARE @opens bigint;
    DECLARE @is_registered bit;
    CREATE TABLE #verdicts (letters varchar(max) NULL);
    CREATE TABLE #claimed (id char(36) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY, turn int NOT NULL);
    CREATE TABLE #task (name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
    CREATE TABLE #wanted (
        turn int NOT NULL PRIMARY KEY, name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL, paused bit NOT NULL);
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.enter_flow_v1 @ns, @flows OUTPUT, @is_late OUTPUT;
        SET LOCK_TIMEOUT 1000;
        SET @now = holdfast.now_v1();
        IF @moves IS NOT NULL
            EXEC holdfast.moves_v1 @ns, @worker, @now, @moves, @bytes, @texts;
        IF @flows = 1 AND @is_late = 0
            EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
        SET @is_registered = CASE WHEN EXISTS (
            SELECT 1 FROM holdfast.worker AS w WHERE w.ns = @ns AND w.id = @worker AND w.live_until > @now) THEN 1 ELSE 0 END;
        IF @queues IS NOT NULL
        BEGIN
            INSERT INTO #task (name) SELECT DISTINCT t.value COLLATE Latin1_General_BIN2 FROM OPENJSON(@tasks) AS t;
            INSERT INTO #wanted (turn, name, paused)
            SELECT w.turn, w.name, CASE WHEN p.paused = 1 THEN 1 ELSE 0 END
            FROM (
                SELECT MIN(CAST(q.[key] AS int)) AS turn, q.value COLLATE Latin1_General_BIN2 AS name
                FROM OPENJSON(@queues) AS q GROUP BY q.value COLLATE Latin1_General_BIN2
            ) AS w
            LEFT JOIN holdfast.queue AS p ON p.ns = @ns AND p.name = w.name;
            IF @repeat = 1
            BEGIN
                INSERT INTO #claimed (id, turn)
                SELECT j.id, 0 FROM holdfast.job AS j WHERE j.ns = @ns AND j.worker = @worker AND j.seq = @seq;
                IF @@ROWCOUNT > 0
                    SET @left = 0;
            END
            IF @is_registered = 0 OR @is_late = 1
                SET @left = 0;
            SELECT @turn = MIN(w.turn) FROM #wanted AS w WHERE w.paused = 0;
            WHILE @turn IS NOT NULL
            BEGIN
                SELECT @queue = w.name FROM #wanted AS w WHERE w.turn = @turn;
                EXEC holdfast.promote_v1 @ns, @queue, @now;
                IF @left > 0
                BEGIN
                    IF @flows = 1
                        EXEC holdfast.claim_flow_v1 @ns, @worker, @seq, @queue, @turn, @left, @lease, @now, @got OUTPUT;
                    ELSE
                        EXEC holdfast.claim_v1
                            @ns, @worker, @seq, @queue, @turn, @left, @lease, @now, @got OUTPUT, @more OUTPUT;
                    SET @left = @left - @got;
                    IF @left > 0 AND @more > 0
                        SET @is_cut = 1;
                END
                SELECT @turn = MIN(w.turn) FROM #wanted AS w WHERE w.paused = 0 AND w.turn > @turn;
            END
            SELECT @next = MIN(j.due) - @now
            FROM holdfast.job AS j WITH (READPAST, READCOMMITTEDLOCK)
            INNER JOIN #wanted AS w ON w.name = j.queue AND w.paused = 0
            WHERE j.ns = @ns AND j.ready = 0;
            IF @next < 0
                SET @next = 0;
            IF @is_late = 1 OR @is_cut = 1
                SET @next = 0;
            ELSE IF @flows = 1
            BEGIN
                EXEC holdfast.opens_v1 @ns, @now, @left, @opens OUTPUT;
                IF @next IS NULL OR @opens < @next
                    SET @next = COALESCE(@opens, @next);
            END
        END
        SELECT v.*
        FROM #claimed AS c
        INNER JOIN holdfast.live AS v ON v.ns = @ns AND v.id = c.id
        ORDER BY c.turn, v.priority, v.rank, v.id;
        SELECT v.id, v.token FROM holdfast.live AS v WITH (READPAST, READCOMMITTEDLOCK)
        WHERE v.ns = @ns AND v.worker = @worker AND v.cancel_asked = 1 ORDER BY v.id;
        SELECT 1 AS kind, w.name FROM #wanted AS w WHERE w.paused = 1
        UNION ALL
        SELECT 2, t.name FROM #task AS t
        WHERE EXISTS (SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = 'task' AND l.name = t.name AND l.paused = 1);
        SELECT
            @now AS now, @next AS next_due, @is_registered AS registered,
            COALESCE((SELECT v.letters FROM #verdicts AS v), '') AS verdicts,
            CASE WHEN @freed > (SELECT COUNT(*) FROM #claimed) THEN 1 ELSE 0 END AS freed;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (6, '0006_ticking', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0007_changing
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 7) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Prolongs leases; each job is asked for once. Gives for each, by n, whether it is held, held and asked to stop, or lost. Asks
-- for no lock of the job, which its own handler's transaction may be ending just now, and for long. A reclaim locks the row in
-- lease.
CREATE PROCEDURE holdfast.extend_v1 @ns int, @worker nvarchar(200), @wishes nvarchar(max), @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    CREATE TABLE #wish (
        n int NOT NULL PRIMARY KEY,
        job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
        token bigint NOT NULL,
        lease bigint NOT NULL,
        elapsed bigint NULL,
        progress float NULL,
        note nvarchar(max) NULL,
        is_told bit NOT NULL
    );
    CREATE TABLE #text (n int NOT NULL PRIMARY KEY, value nvarchar(max) NOT NULL);
    IF @texts IS NOT NULL
        EXEC holdfast.open_texts_v1 @texts;
    INSERT INTO #wish (n, job, token, lease, elapsed, progress, note, is_told)
    SELECT
        w.n, w.job, w.token, w.lease, w.elapsed, w.progress, t.value,
        CASE WHEN w.progress IS NULL AND w.note IS NULL THEN 0 ELSE 1 END
    FROM OPENJSON(@wishes) WITH (
        n int '$.n', job char(36) '$.job', token bigint '$.token', lease bigint '$.lease', elapsed bigint '$.elapsed',
        progress float '$.progress', note int '$.note'
    ) AS w
    LEFT JOIN #text AS t ON t.n = w.note;
    BEGIN TRY
        BEGIN TRANSACTION;
        -- Waits for a reclaim; if that was first, the job is not leased any more when it is looked at below.
        EXEC holdfast.hold_leases_v1 @ns;
        SET @now = holdfast.now_v1();
        UPDATE l SET
            until = CASE WHEN l.until > @now + w.lease THEN l.until ELSE @now + w.lease END,
            started = COALESCE(l.started, @now - w.elapsed),
            running = CASE WHEN l.running = 1 OR w.elapsed IS NOT NULL THEN 1 ELSE 0 END,
            progress = CASE WHEN w.is_told = 1 THEN w.progress ELSE l.progress END,
            progress_note = CASE WHEN w.is_told = 1 THEN w.note COLLATE Latin1_General_BIN2 ELSE l.progress_note END
        FROM holdfast.lease AS l
        INNER JOIN #wish AS w ON w.job = l.job AND w.token = l.token
        WHERE l.ns = @ns AND l.worker = @worker AND l.until > @now;
        SELECT
            w.n, CASE WHEN v.id IS NULL OR v.lease_until <= @now THEN 'l' WHEN v.cancel_asked = 1 THEN 'c' ELSE 'h' END AS held
        FROM #wish AS w
        LEFT JOIN holdfast.live AS v ON v.ns = @ns AND v.id = w.job AND v.token = w.token AND v.worker = @worker
        ORDER BY w.n;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Locks what tells of the leases of #wish, job by job in the order of their ids, so that two such calls do not wait for each
-- other.
CREATE PROCEDURE holdfast.hold_leases_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @job char(36);
    DECLARE @token bigint;
    SELECT @job = MIN(w.job) FROM #wish AS w;
    WHILE @job IS NOT NULL
    BEGIN
        SELECT @token = w.token FROM #wish AS w WHERE w.job = @job;
        EXEC holdfast.hold_lease_v1 @ns, @job, @token;
        SELECT @job = MIN(w.job) FROM #wish AS w WHERE w.job > @job;
    END
END
GO

-- Puts a live job that is not leased among the finished ones.
CREATE PROCEDURE holdfast.finish_v1 @ns int, @job char(36), @state tinyint, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    INSERT INTO holdfast.done (
        ns, id, task, queue, payload, state, priority, due, rank, created, finished, run, failures, lost, suspect, version, token,
        lease, timeout, retry, headers, job_key, tags, started, cancel_asked, progress, progress_note, reason, error, result,
        limit_key, fair_key, sequence, place, halts, after_any, held, expires, unmet)
    SELECT
        j.ns, j.id, j.task, j.queue, j.payload, @state, j.priority, j.due, j.rank, j.created, @now, j.run, j.failures, j.lost,
        j.suspect, j.version, j.token, j.lease, j.timeout, j.retry, j.headers, j.job_key, j.tags, j.started, j.cancel_asked,
        j.progress, j.progress_note, j.reason, j.error, j.result, j.limit_key, j.fair_key, j.sequence, j.place, j.halts,
        j.after_any, j.held, j.expires, j.unmet
    FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job;
    DELETE FROM holdfast.job WHERE ns = @ns AND id = @job;
    INSERT INTO holdfast.tally (ns, queue, state, jobs)
    SELECT d.ns, d.queue, d.state, 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job;
END
GO

-- Puts a finished job among the live ones again.
CREATE PROCEDURE holdfast.revive_v1 @ns int, @job char(36), @state tinyint
AS
BEGIN
    SET NOCOUNT ON;
    INSERT INTO holdfast.tally (ns, queue, state, jobs)
    SELECT d.ns, d.queue, d.state, -1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job;
    INSERT INTO holdfast.job (
        ns, id, task, queue, payload, state, priority, due, rank, created, run, failures, lost, suspect, version, token, lease,
        timeout, retry, headers, job_key, tags, started, cancel_asked, progress, progress_note, reason, error, limit_key,
        fair_key, sequence, place, halts, after_any, held, expires, unmet, gate)
    SELECT
        d.ns, d.id, d.task, d.queue, d.payload, @state, d.priority, d.due, d.rank, d.created, d.run, d.failures, d.lost,
        d.suspect, d.version, d.token, d.lease, d.timeout, d.retry, d.headers, d.job_key, d.tags, d.started, 0, d.progress,
        d.progress_note, d.reason, d.error, d.limit_key, d.fair_key, d.sequence, d.place, d.halts, d.after_any, d.held,
        d.expires, d.unmet,
        CASE WHEN d.held = 1 OR EXISTS (
            SELECT 1 FROM holdfast.link AS l WHERE l.ns = d.ns AND l.waiter = d.id AND l.state IS NULL) THEN 'after' END
    FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job;
    DELETE FROM holdfast.done WHERE ns = @ns AND id = @job;
END
GO

-- Locks the row of a job, live or finished.
CREATE PROCEDURE holdfast.hold_job_v1 @ns int, @job char(36)
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE holdfast.job WITH (UPDLOCK, ROWLOCK) SET seq = seq WHERE ns = @ns AND id = @job;
    IF @@ROWCOUNT = 0
        UPDATE holdfast.done WITH (UPDLOCK, ROWLOCK) SET version = version WHERE ns = @ns AND id = @job;
END
GO

-- An edit. Gives how it went ("fit", "unfit", or "held" and by which job), and the job as it then stands.
CREATE PROCEDURE holdfast.edit_v1
    @ns int, @job char(36), @version int, @sources varchar(10), @to tinyint, @queue nvarchar(200), @priority bigint, @due bigint,
    @delay bigint, @tags nvarchar(max), @failures int, @lost int, @suspect bit, @reason nvarchar(max), @key nvarchar(200),
    @key_ttl bigint, @ask_cancel bit
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @flows bit;
    DECLARE @is_late bit;
    DECLARE @is_fit bit = 0;
    DECLARE @state tinyint;
    DECLARE @token bigint;
    DECLARE @holder nvarchar(200);
    DECLARE @until bigint;
    DECLARE @started bigint;
    DECLARE @old_queue nvarchar(200);
    DECLARE @task nvarchar(200);
    DECLARE @limit_key nvarchar(200);
    DECLARE @sequence nvarchar(200);
    DECLARE @old_key nvarchar(200);
    DECLARE @held char(36);
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.enter_flow_v1 @ns, @flows OUTPUT, @is_late OUTPUT;
        SET LOCK_TIMEOUT 2000;
        EXEC holdfast.hold_job_v1 @ns, @job;
        SET @now = holdfast.now_v1();
        SELECT
            @is_fit = CASE WHEN s.version <> @version THEN 0 WHEN @ask_cancel = 1 THEN CASE WHEN s.worker IS NULL THEN 0 ELSE 1 END
                WHEN s.worker IS NOT NULL OR CHARINDEX(CAST(s.state AS varchar(1)), @sources) = 0 THEN 0 ELSE 1 END,
            @state = s.state, @token = s.token, @holder = s.worker, @until = s.lease_until, @started = s.started,
            @old_queue = s.queue, @task = s.task, @limit_key = s.limit_key, @sequence = s.sequence, @old_key = s.job_key
        FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job;
        IF @is_fit = 0
        BEGIN
            SELECT 'unfit' AS answer, CAST(NULL AS char(36)) AS holder;
            COMMIT TRANSACTION;
            RETURN;
        END
        IF @ask_cancel = 1
        BEGIN
            EXEC holdfast.hold_lease_v1 @ns, @job, @token;
            UPDATE holdfast.lease SET cancel_asked = 1, changes = changes + 1, running = CASE WHEN @state = 2 THEN 1 ELSE running END
            WHERE ns = @ns AND job = @job AND token = @token;
        END
        ELSE
        BEGIN
            SET @to = COALESCE(@to, @state);
            IF @key IS NOT NULL OR (@state NOT IN (0, 5) AND @to IN (0, 5) AND @old_key IS NOT NULL)
            BEGIN
                DECLARE @wanted_key nvarchar(200) = COALESCE(@key, @old_key);
                DECLARE @has_key bit = CASE WHEN @key IS NULL AND EXISTS (
                    SELECT 1 FROM holdfast.job_key AS k WHERE k.ns = @ns AND k.name = @wanted_key AND k.job = @job) THEN 1 ELSE 0 END;
                IF @has_key = 0
                    EXEC holdfast.take_key_v1 @ns, @wanted_key, @job, @key_ttl, @now, @held OUTPUT;
                IF @held IS NOT NULL
                BEGIN
                    SELECT 'held' AS answer, @held AS holder;
                    COMMIT TRANSACTION;
                    RETURN;
                END
                IF @key IS NOT NULL AND @old_key <> @key COLLATE Latin1_General_BIN2
                    DELETE FROM holdfast.job_key WHERE ns = @ns AND name = @old_key AND job = @job;
            END
            IF @state NOT IN (0, 5) AND @to IN (0, 5)
                EXEC holdfast.revive_v1 @ns, @job, @to;
            IF @to IN (0, 5) OR @state IN (0, 5)
                UPDATE holdfast.job SET
                    state = @to, version = version + 1, queue = COALESCE(@queue, queue), priority = COALESCE(@priority, priority),
                    due = COALESCE(@due, @now + @delay, due),
                    rank = CASE WHEN fair_key IS NULL THEN COALESCE(@due, @now + @delay, due) ELSE rank END,
                    ready = CASE WHEN gate = 'after' THEN NULL WHEN COALESCE(@due, @now + @delay, due) <= @now THEN 1 ELSE 0 END,
                    gate = CASE WHEN gate = 'after' THEN gate END, tags = COALESCE(@tags, tags),
                    failures = COALESCE(@failures, failures), lost = COALESCE(@lost, lost), suspect = COALESCE(@suspect, suspect),
                    reason = COALESCE(@reason, reason), job_key = COALESCE(@key, job_key)
                WHERE ns = @ns AND id = @job;
            ELSE
            BEGIN
                INSERT INTO holdfast.tally (ns, queue, state, jobs) VALUES (@ns, @old_queue, @state, -1);
                UPDATE holdfast.done SET
                    state = @to, version = version + 1, queue = COALESCE(@queue, queue), priority = COALESCE(@priority, priority),
                    due = COALESCE(@due, @now + @delay, due),
                    rank = CASE WHEN fair_key IS NULL THEN COALESCE(@due, @now + @delay, due) ELSE rank END,
                    tags = COALESCE(@tags, tags), failures = COALESCE(@failures, failures), lost = COALESCE(@lost, lost),
                    suspect = COALESCE(@suspect, suspect), reason = COALESCE(@reason, reason), job_key = COALESCE(@key, job_key)
                WHERE ns = @ns AND id = @job;
                INSERT INTO holdfast.tally (ns, queue, state, jobs) VALUES (@ns, COALESCE(@queue, @old_queue), @to, 1);
            END
            IF @state IN (0, 5) AND @to NOT IN (0, 5)
            BEGIN
                EXEC holdfast.finish_v1 @ns, @job, @to, @now;
                DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
                WHERE ns = @ns AND name = COALESCE(@key, @old_key) AND job = @job AND (until IS NULL OR until <= @now);
            END
            -- One that stays in the dead letter queue ends nothing.
            IF @state IN (0, 5) OR @to <> @state
            BEGIN
                IF @flows = 1
                    EXEC holdfast.note_v1 @ns, @job, @old_queue, @task, @limit_key, @sequence;
                IF @flows = 1 AND @is_late = 0
                BEGIN
                    DECLARE @freed int;
                    EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
                END
            END
        END
        SELECT 'fit' AS answer, CAST(NULL AS char(36)) AS holder;
        SELECT s.*
        FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Removes what is kept beside jobs of #gone that are no longer there. A key that somebody has is just getting another job.
CREATE PROCEDURE holdfast.forget_beside_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DELETE FROM holdfast.attempt
    WHERE ns = @ns AND job IN (SELECT g.id FROM #gone AS g)
        AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = holdfast.attempt.job);
    DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE ns = @ns AND job IN (SELECT g.id FROM #gone AS g)
        AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = holdfast.job_key.job);
    DELETE FROM holdfast.link
    WHERE ns = @ns AND waiter IN (SELECT g.id FROM #gone AS g)
        AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = holdfast.link.waiter);
END
GO

-- Removes a job that is not leased, with all that is kept beside it; whether it stays.
CREATE PROCEDURE holdfast.forget_v1 @ns int, @job char(36)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @flows bit;
    DECLARE @is_late bit;
    DECLARE @queue nvarchar(200);
    DECLARE @task nvarchar(200);
    DECLARE @limit_key nvarchar(200);
    DECLARE @sequence nvarchar(200);
    DECLARE @stays bit = 0;
    DECLARE @freed int;
    CREATE TABLE #gone (
        id char(36) COLLATE Latin1_General_BIN2 NOT NULL, queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        state tinyint NOT NULL);
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.enter_flow_v1 @ns, @flows OUTPUT, @is_late OUTPUT;
        SET LOCK_TIMEOUT 2000;
        SELECT @queue = s.queue, @task = s.task, @limit_key = s.limit_key, @sequence = s.sequence
        FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job;
        DELETE FROM holdfast.job
        OUTPUT deleted.id, deleted.queue, deleted.state INTO #gone (id, queue, state)
        WHERE ns = @ns AND id = @job AND worker IS NULL;
        IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job)
            SET @stays = 1;
        ELSE
        BEGIN
            DELETE FROM holdfast.done
            OUTPUT deleted.id, deleted.queue, deleted.state INTO #gone (id, queue, state)
            WHERE ns = @ns AND id = @job;
            INSERT INTO holdfast.tally (ns, queue, state, jobs)
            SELECT @ns, g.queue, g.state, -1 FROM #gone AS g WHERE g.state NOT IN (0, 5);
            EXEC holdfast.forget_beside_v1 @ns;
        END
        IF @queue IS NOT NULL AND @stays = 0
        BEGIN
            SET @now = holdfast.now_v1();
            IF @flows = 1
                EXEC holdfast.note_v1 @ns, @job, @queue, @task, @limit_key, @sequence;
            IF @flows = 1 AND @is_late = 0
                EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
        END
        SELECT @stays AS stays;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Removes jobs that finished so long ago, the oldest first; how many. Also sweeps up leftovers that nobody asks for.
CREATE PROCEDURE holdfast.prune_v1 @ns int, @older_than bigint, @limit int
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    SET LOCK_TIMEOUT 2000;
    DECLARE @now bigint;
    DECLARE @removed int;
    CREATE TABLE #gone (
        id char(36) COLLATE Latin1_General_BIN2 NOT NULL, queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        state tinyint NOT NULL);
    BEGIN TRY
        BEGIN TRANSACTION;
        SET @now = holdfast.now_v1();
        DELETE FROM holdfast.done WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        OUTPUT deleted.id, deleted.queue, deleted.state INTO #gone (id, queue, state)
        WHERE ns = @ns AND state <> 6 AND finished < @now - @older_than AND id IN (
            SELECT TOP (@limit) d.id FROM holdfast.done AS d
            WHERE d.ns = @ns AND d.state <> 6 AND d.finished < @now - @older_than
            ORDER BY d.finished, d.id);
        SET @removed = @@ROWCOUNT;
        INSERT INTO holdfast.tally (ns, queue, state, jobs)
        SELECT @ns, g.queue, g.state, -COUNT(*) FROM #gone AS g GROUP BY g.queue, g.state;
        EXEC holdfast.forget_beside_v1 @ns;
        DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE ns = @ns AND until <= @now
            AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = holdfast.job_key.job);
        DELETE FROM holdfast.lease WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE ns = @ns AND until < @now AND NOT EXISTS (
            SELECT 1 FROM holdfast.job AS j
            WHERE j.ns = @ns AND j.id = holdfast.lease.job AND j.token = holdfast.lease.token AND j.worker IS NOT NULL);
        IF (SELECT COUNT(*) FROM holdfast.tally AS t WHERE t.ns = @ns) > 1000
            EXEC holdfast.sum_tally_v1 @ns;
        COMMIT TRANSACTION;
        -- By itself: it asks for the flow lock, and nobody may do so who has a row.
        BEGIN TRANSACTION;
        EXEC holdfast.sweep_flow_v1 @ns, @now, @limit;
        COMMIT TRANSACTION;
        SELECT @removed AS removed;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Sums up the changes that count finished jobs.
CREATE PROCEDURE holdfast.sum_tally_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #summed (
        queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL, state tinyint NOT NULL, jobs bigint NOT NULL);
    DELETE FROM holdfast.tally WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    OUTPUT deleted.queue, deleted.state, deleted.jobs INTO #summed (queue, state, jobs)
    WHERE ns = @ns;
    INSERT INTO holdfast.tally (ns, queue, state, jobs)
    SELECT @ns, s.queue, s.state, SUM(s.jobs) FROM #summed AS s GROUP BY s.queue, s.state HAVING SUM(s.jobs) <> 0;
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (7, '0007_changing', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0008_gates
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 8) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- What holds jobs back beside their due time. Where a namespace stands in flowing, whoever claims jobs, or settles what ended,
-- has the flow lock alone until the commit; elsewhere ticks share it. It is taken before any row. A transaction of others never
-- takes it: it leaves notes, and whoever has the lock next settles by them. So nobody waits for the lock who has a row that its
-- holder may wait for.

-- Takes the lock, which is the row of the namespace, until the end of the transaction: together with others or alone. @got is 0
-- if it is not to be had within the session's lock timeout, or at once if it is not to be waited for.
CREATE PROCEDURE holdfast.take_flow_v1 @ns int, @mode varchar(9), @waits bit, @got bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SET @got = 0;
    BEGIN TRY
        IF @mode = 'Shared'
        BEGIN
            -- Asks for a column that changes, so that it is the row which is locked, and not an entry of an index.
            SELECT @got = CASE WHEN n.turns >= 0 THEN 1 ELSE 0 END
            FROM holdfast.namespace AS n WITH (REPEATABLEREAD, ROWLOCK) WHERE n.id = @ns;
            RETURN;
        END
        IF @waits = 1
            UPDATE holdfast.namespace SET turns = turns + 1 WHERE id = @ns;
        ELSE
            UPDATE holdfast.namespace WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) SET turns = turns + 1 WHERE id = @ns;
        SET @got = @@ROWCOUNT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222
            THROW;
    END CATCH
END
GO

-- Says that the namespace uses limits, sequences or links.
CREATE PROCEDURE holdfast.use_flow_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    IF NOT EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        INSERT INTO holdfast.flowing (ns) VALUES (@ns);
END
GO

-- Notes a job that ended, was changed or removed.
CREATE PROCEDURE holdfast.note_v1
    @ns int, @job char(36), @queue nvarchar(200), @task nvarchar(200), @limit_key nvarchar(200), @sequence nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    INSERT INTO holdfast.note (ns, job, is_new, queue, task, limit_key, sequence)
    VALUES (@ns, @job, 0, @queue, @task, @limit_key, @sequence);
END
GO

-- The limit of a gate for jobs of a task: how many may be leased, 0 if it is paused, null if that is not limited; and how far
-- apart claims are, null without a rate.
CREATE PROCEDURE holdfast.limit_v1
    @ns int, @gate nvarchar(220), @task nvarchar(200), @most int OUTPUT, @step bigint OUTPUT, @burst bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @scope varchar(10) = LEFT(@gate, CHARINDEX(N':', @gate) - 1);
    DECLARE @name nvarchar(200) = SUBSTRING(@gate, CHARINDEX(N':', @gate) + 1, 200);
    SET @most = NULL;
    SET @step = NULL;
    SET @burst = NULL;
    IF @scope = 'key' AND NOT EXISTS (
        SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = 'key' AND l.name = @name)
    BEGIN
        SET @scope = 'each_key';
        SET @name = @task;
    END
    SELECT
        @most = CASE WHEN l.paused = 1 THEN 0 ELSE l.concurrency END,
        @step = CASE WHEN l.rate > 0 AND l.period > 0 THEN (l.period + l.rate - 1) / l.rate END, @burst = l.burst
    FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name;
END
GO

-- How many more jobs of a task a gate would let through; null if nothing limits it. If its rate is used up, it says there
-- when it will open.
CREATE PROCEDURE holdfast.room_v1 @ns int, @now bigint, @gate nvarchar(220), @task nvarchar(200), @room bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @most int;
    DECLARE @step bigint;
    DECLARE @burst bigint;
    DECLARE @leased int = 0;
    DECLARE @at bigint;
    DECLARE @last bigint;
    DECLARE @by_rate bigint;
    DECLARE @name nvarchar(200) = SUBSTRING(@gate, CHARINDEX(N':', @gate) + 1, 200);
    EXEC holdfast.limit_v1 @ns, @gate, @task, @most OUTPUT, @step OUTPUT, @burst OUTPUT;
    IF @most > 0
    BEGIN
        IF LEFT(@gate, 4) = N'key:'
            SELECT @leased = COUNT(*) FROM holdfast.job AS j
            WHERE j.ns = @ns AND j.limit_key = @name AND j.limit_key IS NOT NULL AND j.worker IS NOT NULL;
        ELSE IF LEFT(@gate, 6) = N'queue:'
            SELECT @leased = COUNT(*) FROM holdfast.job AS j WHERE j.ns = @ns AND j.queue = @name AND j.worker IS NOT NULL;
        ELSE
            SELECT @leased = COUNT(*) FROM holdfast.job AS j WHERE j.ns = @ns AND j.task = @name AND j.worker IS NOT NULL;
    END
    SET @room = @most - @leased;
    IF @step IS NULL
        RETURN;
    SET @at = holdfast.now_v1();
    IF @at < @now
        SET @at = @now;
    SET @last = NULL;
    SELECT @last = g.last FROM holdfast.gate AS g WHERE g.ns = @ns AND g.name = @gate;
    IF @last IS NULL OR @last < @at
        SET @last = @at;
    SET @by_rate = (@at + @burst * @step - @last) / @step;
    IF @by_rate <= 0
        UPDATE holdfast.gate SET opens = last - (@burst - 1) * @step WHERE ns = @ns AND name = @gate;
    IF @room IS NULL OR @by_rate < @room
        SET @room = @by_rate;
END
GO

-- Marks a gate that may have room by now.
CREATE PROCEDURE holdfast.mark_v1 @ns int, @gate nvarchar(220)
AS
BEGIN
    SET NOCOUNT ON;
    UPDATE holdfast.gate SET opens = 0 WHERE ns = @ns AND name = @gate;
    IF @@ROWCOUNT = 0
        INSERT INTO holdfast.gate (ns, name, last, opens) VALUES (@ns, @gate, 0, 0);
END
GO

-- Marks those gates of a job, but for one, where somebody waits for room.
CREATE PROCEDURE holdfast.mark_gates_v1
    @ns int, @queue nvarchar(200), @task nvarchar(200), @limit_key nvarchar(200), @but nvarchar(220)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @gate nvarchar(220);
    DECLARE @turn int = 1;
    WHILE @turn <= 3
    BEGIN
        SET @gate = CASE @turn
            WHEN 1 THEN N'queue:' + @queue WHEN 2 THEN N'task:' + @task WHEN 3 THEN N'key:' + @limit_key END;
        IF @gate <> @but COLLATE Latin1_General_BIN2 AND (
            EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = @gate)
            OR EXISTS (SELECT 1 FROM holdfast.behind AS b WHERE b.ns = @ns AND b.gate = @gate))
            EXEC holdfast.mark_v1 @ns, @gate;
        SET @turn = @turn + 1;
    END
END
GO

-- Frees the first jobs of each line of a gate, as many as there is room; @freed counts them. What is left at a gate without a
-- limit is freed later.
CREATE PROCEDURE holdfast.open_gate_v1 @ns int, @now bigint, @gate nvarchar(220), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @most_at_once int = 1000;
    DECLARE @queue nvarchar(200) = N'';
    DECLARE @task nvarchar(200) = N'';
    DECLARE @next_queue nvarchar(200);
    DECLARE @next_task nvarchar(200);
    DECLARE @room bigint;
    DECLARE @first int;
    DECLARE @is_more bit = 0;
    WHILE 1 = 1
    BEGIN
        SET @next_queue = NULL;
        SELECT TOP (1) @next_queue = j.queue, @next_task = j.task
        FROM holdfast.job AS j
        WHERE j.ns = @ns AND j.gate = @gate AND (j.queue > @queue OR (j.queue = @queue AND j.task > @task))
        ORDER BY j.queue, j.task;
        IF @next_queue IS NULL
            BREAK;
        SET @queue = @next_queue;
        SET @task = @next_task;
        EXEC holdfast.room_v1 @ns, @now, @gate, @task, @room OUTPUT;
        SET @first = CASE
            WHEN @room IS NULL OR @room > @most_at_once THEN @most_at_once WHEN @room < 0 THEN 0 ELSE @room END;
        UPDATE holdfast.job WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK) SET gate = NULL, ready = CASE WHEN due <= @now THEN 1 ELSE 0 END
        WHERE ns = @ns AND gate = @gate AND id IN (
            SELECT TOP (@first) i.id
            FROM holdfast.job AS i WITH (READPAST, READCOMMITTEDLOCK)
            WHERE i.ns = @ns AND i.gate = @gate AND i.queue = @queue AND i.task = @task
            ORDER BY i.priority, i.rank, i.id);
        SET @freed = @freed + @@ROWCOUNT;
        IF @room IS NULL AND EXISTS (
            SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = @gate AND j.queue = @queue AND j.task = @task)
            SET @is_more = 1;
    END
    IF @is_more = 1
        EXEC holdfast.mark_v1 @ns, @gate;
END
GO

-- Opens the gates that may have room, and those that stand behind them.
CREATE PROCEDURE holdfast.open_gates_v1 @ns int, @now bigint, @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @gate nvarchar(220);
    DECLARE @other nvarchar(220);
    WHILE 1 = 1
    BEGIN
        SET @gate = NULL;
        SELECT TOP (1) @gate = b.gate, @other = b.other
        FROM holdfast.behind AS b
        INNER JOIN holdfast.gate AS g ON g.ns = b.ns AND g.name = b.gate
        WHERE b.ns = @ns AND g.opens <= @now;
        IF @gate IS NULL
            BREAK;
        DELETE FROM holdfast.behind WHERE ns = @ns AND gate = @gate AND other = @other;
        EXEC holdfast.mark_v1 @ns, @other;
    END
    SET @gate = N'';
    WHILE 1 = 1
    BEGIN
        SELECT @gate = MIN(g.name) FROM holdfast.gate AS g WHERE g.ns = @ns AND g.opens <= @now AND g.name > @gate;
        IF @gate IS NULL
            BREAK;
        UPDATE holdfast.gate SET opens = NULL WHERE ns = @ns AND name = @gate;
        EXEC holdfast.open_gate_v1 @ns, @now, @gate, @freed OUTPUT;
    END
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (8, '0008_gates', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0009_settling
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 9) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Frees the job whose turn it is in a sequence. Passes over what somebody has: whoever is freed too early meets the claim.
CREATE PROCEDURE holdfast.call_v1 @ns int, @now bigint, @sequence nvarchar(200), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @next char(36);
    SELECT @next = h.job FROM holdfast.halt AS h WHERE h.ns = @ns AND h.sequence = @sequence;
    IF @next IS NULL
        SELECT TOP (1) @next = j.id
        FROM holdfast.job AS j WITH (READPAST, READCOMMITTEDLOCK)
        WHERE j.ns = @ns AND j.sequence = @sequence AND j.sequence IS NOT NULL
        ORDER BY j.place, j.id;
    UPDATE holdfast.job SET gate = NULL, ready = CASE WHEN due <= @now THEN 1 ELSE 0 END
    WHERE ns = @ns AND id = @next AND gate = N'sequence:' + @sequence;
    SET @freed = @freed + @@ROWCOUNT;
END
GO

-- Sets or ends the halt of a sequence by what became of one of its jobs.
CREATE PROCEDURE holdfast.settle_halt_v1 @ns int, @job char(36), @sequence nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (
        SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job AND d.halts = 1 AND d.state IN (4, 6))
    BEGIN
        UPDATE holdfast.halt SET job = @job WHERE ns = @ns AND sequence = @sequence;
        IF @@ROWCOUNT = 0
            INSERT INTO holdfast.halt (ns, sequence, job) VALUES (@ns, @sequence, @job);
    END
    ELSE IF NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job)
        DELETE FROM holdfast.halt WHERE ns = @ns AND sequence = @sequence AND job = @job;
END
GO

-- Frees a job that waits for others no longer.
CREATE PROCEDURE holdfast.let_go_v1 @ns int, @now bigint, @waiter char(36), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @unmet int;
    DECLARE @is_pending bit = CASE WHEN EXISTS (
        SELECT 1 FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @waiter AND l.state IS NULL) THEN 1 ELSE 0 END;
    SELECT @unmet = NULLIF(COUNT(*), 0) FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @waiter AND l.state <> 3;
    UPDATE holdfast.job SET
        unmet = @unmet,
        ready = CASE WHEN @is_pending = 1 OR held = 1 THEN NULL WHEN due <= @now THEN 1 ELSE 0 END,
        gate = CASE WHEN @is_pending = 1 OR held = 1 THEN gate END
    WHERE ns = @ns AND id = @waiter AND gate = N'after';
    IF @@ROWCOUNT = 0
        UPDATE holdfast.done SET unmet = @unmet WHERE ns = @ns AND id = @waiter AND COALESCE(unmet, 0) <> COALESCE(@unmet, 0);
    ELSE IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @waiter AND j.gate IS NULL)
        SET @freed = @freed + 1;
END
GO

-- Looks at the jobs that a new job waits for, or one that was released; and whether the job still waits that it was put before.
-- Who waits is locked before its links, as by those who remove it.
CREATE PROCEDURE holdfast.settle_new_v1 @ns int, @now bigint, @job char(36), @before char(36), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @after_any bit = 0;
    IF @before IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @before AND j.gate = N'after')
        DELETE FROM holdfast.link WHERE ns = @ns AND waiter = @before AND job = @job;
    IF EXISTS (SELECT 1 FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @job AND l.state IS NULL)
        EXEC holdfast.hold_job_v1 @ns, @job;
    SELECT @after_any = COALESCE(s.after_any, 0) FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job;
    UPDATE l SET state = COALESCE((SELECT d.state FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = l.job), 7)
    FROM holdfast.link AS l
    WHERE l.ns = @ns AND l.waiter = @job AND l.state IS NULL
        AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = l.job)
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = l.job AND d.state = 6 AND @after_any = 0);
    EXEC holdfast.let_go_v1 @ns, @now, @job, @freed OUTPUT;
END
GO

-- Tells those who wait for a job how that ended. Links that somebody is just adding are looked at with their own notes.
CREATE PROCEDURE holdfast.settle_links_v1 @ns int, @now bigint, @job char(36), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @waiter char(36) = '';
    DECLARE @state tinyint;
    IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job)
        RETURN;
    SELECT @state = d.state FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job;
    WHILE 1 = 1
    BEGIN
        SELECT @waiter = MIN(l.waiter)
        FROM holdfast.link AS l WITH (READPAST, READCOMMITTEDLOCK)
        WHERE l.ns = @ns AND l.job = @job AND l.state IS NULL AND l.waiter > @waiter;
        IF @waiter IS NULL
            BREAK;
        IF @state = 6 AND NOT EXISTS (
            SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @waiter AND s.after_any = 1)
            CONTINUE;
        EXEC holdfast.hold_job_v1 @ns, @waiter;
        UPDATE holdfast.link SET state = COALESCE(@state, 7)
        WHERE ns = @ns AND waiter = @waiter AND job = @job AND state IS NULL;
        EXEC holdfast.let_go_v1 @ns, @now, @waiter, @freed OUTPUT;
    END
END
GO

-- Looks at what the notes tell, and frees what waited for it; @freed counts that.
CREATE PROCEDURE holdfast.settle_notes_v1 @ns int, @now bigint, @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n bigint = 0;
    DECLARE @next bigint;
    DECLARE @looks int = 5000;
    DECLARE @job char(36);
    DECLARE @is_new bit;
    DECLARE @before char(36);
    DECLARE @queue nvarchar(200);
    DECLARE @task nvarchar(200);
    DECLARE @limit_key nvarchar(200);
    DECLARE @sequence nvarchar(200);
    SET @freed = 0;
    WHILE @looks > 0
    BEGIN
        SET @next = NULL;
        SELECT TOP (1)
            @next = t.n, @job = t.job, @is_new = t.is_new, @before = t.before_id, @queue = t.queue, @task = t.task,
            @limit_key = t.limit_key, @sequence = t.sequence
        FROM holdfast.note AS t WITH (READPAST, READCOMMITTEDLOCK)
        WHERE t.ns = @ns AND t.n > @n
        ORDER BY t.n;
        IF @next IS NULL
            BREAK;
        SET @n = @next;
        SET @looks = @looks - 1;
        DELETE FROM holdfast.note WHERE ns = @ns AND n = @n;
        IF @is_new = 1
            EXEC holdfast.settle_new_v1 @ns, @now, @job, @before, @freed OUTPUT;
        ELSE
        BEGIN
            EXEC holdfast.settle_links_v1 @ns, @now, @job, @freed OUTPUT;
            IF @sequence IS NOT NULL
            BEGIN
                EXEC holdfast.settle_halt_v1 @ns, @job, @sequence;
                EXEC holdfast.call_v1 @ns, @now, @sequence, @freed OUTPUT;
            END
            EXEC holdfast.mark_gates_v1 @ns, @queue, @task, @limit_key, N'';
        END
    END
    EXEC holdfast.open_gates_v1 @ns, @now, @freed OUTPUT;
END
GO

-- The same, as far as nobody keeps a row locked for long that has to be read: then the notes stay for the next time. Needs the
-- flow lock.
CREATE PROCEDURE holdfast.settle_v1 @ns int, @now bigint, @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SAVE TRANSACTION holdfast_settle;
    BEGIN TRY
        EXEC holdfast.settle_notes_v1 @ns, @now, @freed OUTPUT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
            THROW;
        ROLLBACK TRANSACTION holdfast_settle;
        SET @freed = 0;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (9, '0009_settling', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0010_entering
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 10) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Makes sure that a fair key stands in a queue, and keeps others who add jobs of it waiting.
CREATE PROCEDURE holdfast.keep_fair_v1 @ns int, @queue nvarchar(200), @key nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @is_kept bit = 0;
    WHILE @is_kept = 0
    BEGIN
        BEGIN TRY
            INSERT INTO holdfast.fair (ns, queue, fair_key, last)
            SELECT @ns, @queue, @key, -9000000000000000000
            WHERE NOT EXISTS (
                SELECT 1 FROM holdfast.fair AS f
                WHERE f.ns = @ns AND f.queue = @queue AND f.fair_key = @key);
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
        UPDATE holdfast.fair SET last = last WHERE ns = @ns AND queue = @queue AND fair_key = @key;
        SET @is_kept = CASE WHEN @@ROWCOUNT > 0 THEN 1 ELSE 0 END;
    END
END
GO

-- Gives those of #new that were added and have fair keys their ranks. Whoever adds as part of something else (@waits is 0) waits for nobody,
-- and leaves no trace of it.
CREATE PROCEDURE holdfast.rank_new_v1 @ns int, @now bigint, @waits bit
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @queue nvarchar(200) = N'';
    DECLARE @key nvarchar(200) = N'';
    DECLARE @next_queue nvarchar(200);
    DECLARE @next_key nvarchar(200);
    WHILE @waits = 1
    BEGIN
        SET @next_queue = NULL;
        SELECT TOP (1) @next_queue = w.queue, @next_key = w.fair_key
        FROM #new AS w
        WHERE w.fair_key IS NOT NULL AND w.stood IS NULL
            AND (w.queue > @queue OR (w.queue = @queue AND w.fair_key > @key))
        ORDER BY w.queue, w.fair_key;
        IF @next_queue IS NULL
            BREAK;
        SET @queue = @next_queue;
        SET @key = @next_key;
        EXEC holdfast.keep_fair_v1 @ns, @queue, @key;
    END
    -- Each rank is a stride above the one before it, or above the floor where that is higher.
    UPDATE w SET rank = r.rank
    FROM #new AS w
    INNER JOIN (
        SELECT
            t.n,
            t.turn * t.stride + CASE WHEN t.base > t.last THEN t.base ELSE t.last END AS rank
        FROM (
            SELECT
                k.n, k.turn, k.stride, k.last,
                MAX(p.base - (k.turn - 1) * k.stride) OVER (
                    PARTITION BY k.queue, k.fair_key ORDER BY k.turn ROWS UNBOUNDED PRECEDING) AS base
            FROM (
                SELECT
                    u.n, u.queue, u.priority, u.fair_key,
                    ROW_NUMBER() OVER (PARTITION BY u.queue, u.fair_key ORDER BY u.n) AS turn,
                    CAST(FLOOR(1000000.0 / COALESCE((
                        SELECT l.weight FROM holdfast.limits AS l
                        WHERE l.ns = @ns AND l.scope = 'key' AND l.name = u.fair_key), 1.0)) AS bigint) AS stride,
                    COALESCE((
                        SELECT f.last FROM holdfast.fair AS f
                        WHERE f.ns = @ns AND f.queue = u.queue AND f.fair_key = u.fair_key),
                        CAST(-9000000000000000000 AS bigint)) AS last
                FROM #new AS u
                WHERE u.fair_key IS NOT NULL AND u.stood IS NULL
            ) AS k
            INNER JOIN (
                SELECT
                    u.queue, u.priority,
                    COALESCE(
                        (SELECT MIN(j.rank) FROM holdfast.job AS j
                         WHERE j.ns = @ns AND j.queue = u.queue AND j.priority = u.priority
                             AND (j.ready = 1 OR (j.ready = 0 AND j.due <= @now))
                             AND NOT EXISTS (SELECT 1 FROM #new AS o WHERE o.id = j.id AND o.stood IS NULL)),
                        (SELECT CASE WHEN MAX(f.last) > @now THEN MAX(f.last) ELSE @now END FROM holdfast.fair AS f
                         WHERE f.ns = @ns AND f.queue = u.queue)) AS base
                FROM #new AS u
                WHERE u.fair_key IS NOT NULL AND u.stood IS NULL
                GROUP BY u.queue, u.priority
            ) AS p ON p.queue = k.queue AND p.priority = k.priority
        ) AS t
    ) AS r ON r.n = w.n;
    UPDATE j SET rank = w.rank
    FROM holdfast.job AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    INNER JOIN #new AS w ON w.id = j.id
    WHERE j.ns = @ns AND w.fair_key IS NOT NULL AND w.stood IS NULL;
    IF @waits = 1
        UPDATE f SET last = n.last
        FROM holdfast.fair AS f
        INNER JOIN (
            SELECT w.queue, w.fair_key, MAX(w.rank) AS last FROM #new AS w
            WHERE w.fair_key IS NOT NULL AND w.stood IS NULL GROUP BY w.queue, w.fair_key
        ) AS n ON n.queue = f.queue AND n.fair_key = f.fair_key
        WHERE f.ns = @ns AND f.last < n.last;
END
GO

-- Links a job of #new to those that it waits for, and to the one that it is put before, if that still waits for others. One
-- that this call adds later is not stored yet: nobody can wait for it, and no two for each other.
CREATE PROCEDURE holdfast.link_one_v1 @ns int, @n int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @id char(36);
    DECLARE @after nvarchar(max);
    DECLARE @before char(36);
    SELECT @id = w.id, @after = w.after_json, @before = w.before_id FROM #new AS w WHERE w.n = @n;
    IF @after IS NOT NULL
        INSERT INTO holdfast.link (ns, waiter, job, state)
        SELECT DISTINCT
            @ns, @id, a.job,
            CASE WHEN EXISTS (SELECT 1 FROM #new AS w WHERE w.id = a.job AND w.n > @n AND w.stood IS NULL) THEN 7 END
        FROM (SELECT CAST(o.value AS char(36)) COLLATE Latin1_General_BIN2 AS job FROM OPENJSON(@after) AS o) AS a
        WHERE a.job <> @id AND NOT EXISTS (
            SELECT 1 FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @id AND l.job = a.job);
    IF @before IS NOT NULL
        INSERT INTO holdfast.link (ns, waiter, job)
        SELECT j.ns, j.id, @id FROM holdfast.job AS j
        WHERE j.ns = @ns AND j.id = @before AND j.id <> @id AND j.gate = N'after'
            AND NOT EXISTS (SELECT 1 FROM #new AS w WHERE w.id = @before AND w.n > @n AND w.stood IS NULL)
            AND NOT EXISTS (SELECT 1 FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @before AND l.job = @id);
END
GO

-- Links the jobs of #new that were added, in their order, and settles each before the next if this has the flow lock.
CREATE PROCEDURE holdfast.link_new_v1 @ns int, @now bigint, @has_flow bit
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int = 0;
    DECLARE @freed int;
    IF NOT EXISTS (
        SELECT 1 FROM #new AS w
        WHERE w.stood IS NULL
            AND (w.sequence IS NOT NULL OR w.after_json IS NOT NULL OR w.before_id IS NOT NULL OR w.held IS NOT NULL))
        RETURN;
    EXEC holdfast.use_flow_v1 @ns;
    IF @has_flow = 1
        EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
    WHILE 1 = 1
    BEGIN
        SELECT @n = MIN(w.n) FROM #new AS w
        WHERE w.stood IS NULL AND (w.after_json IS NOT NULL OR w.before_id IS NOT NULL) AND w.n > @n;
        IF @n IS NULL
            BREAK;
        EXEC holdfast.link_one_v1 @ns, @n;
        INSERT INTO holdfast.note (ns, job, is_new, before_id) SELECT @ns, w.id, 1, w.before_id FROM #new AS w WHERE w.n = @n;
        IF @has_flow = 1
            EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
    END
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (10, '0010_entering', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0011_claiming
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 11) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- The gate that does not let a job through now; null if none holds it back.
CREATE PROCEDURE holdfast.hindrance_v1
    @ns int, @now bigint, @job char(36), @queue nvarchar(200), @task nvarchar(200), @limit_key nvarchar(200),
    @sequence nvarchar(200), @place bigint, @gate nvarchar(220) OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @halting char(36);
    DECLARE @room bigint;
    IF @sequence IS NOT NULL
    BEGIN
        SET @gate = N'sequence:' + @sequence;
        SELECT @halting = h.job FROM holdfast.halt AS h WHERE h.ns = @ns AND h.sequence = @sequence;
        IF @halting <> @job
            RETURN;
        IF @halting IS NULL AND EXISTS (
            SELECT 1 FROM holdfast.job AS j
            WHERE j.ns = @ns AND j.sequence = @sequence AND j.sequence IS NOT NULL
                AND (j.place < @place OR (j.place = @place AND j.id < @job)))
            RETURN;
        IF EXISTS (
            SELECT 1 FROM holdfast.job AS j
            WHERE j.ns = @ns AND j.sequence = @sequence AND j.sequence IS NOT NULL AND j.worker IS NOT NULL)
            RETURN;
    END
    SET @gate = N'queue:' + @queue;
    EXEC holdfast.room_v1 @ns, @now, @gate, @task, @room OUTPUT;
    IF @room <= 0
        RETURN;
    SET @gate = N'task:' + @task;
    EXEC holdfast.room_v1 @ns, @now, @gate, @task, @room OUTPUT;
    IF @room <= 0
        RETURN;
    SET @gate = N'key:' + @limit_key;
    IF @gate IS NULL
        RETURN;
    EXEC holdfast.room_v1 @ns, @now, @gate, @task, @room OUTPUT;
    IF @room > 0 OR @room IS NULL
        SET @gate = NULL;
END
GO

-- Uses up the rates of a job's gates by one claim.
CREATE PROCEDURE holdfast.pass_v1
    @ns int, @at bigint, @queue nvarchar(200), @task nvarchar(200), @limit_key nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @gate nvarchar(220);
    DECLARE @most int;
    DECLARE @step bigint;
    DECLARE @burst bigint;
    DECLARE @turn int = 1;
    WHILE @turn <= 3
    BEGIN
        SET @gate = CASE @turn
            WHEN 1 THEN N'queue:' + @queue WHEN 2 THEN N'task:' + @task WHEN 3 THEN N'key:' + @limit_key END;
        SET @turn = @turn + 1;
        IF @gate IS NULL
            CONTINUE;
        EXEC holdfast.limit_v1 @ns, @gate, @task, @most OUTPUT, @step OUTPUT, @burst OUTPUT;
        IF @step IS NULL
            CONTINUE;
        UPDATE holdfast.gate SET last = CASE WHEN last > @at THEN last ELSE @at END + @step WHERE ns = @ns AND name = @gate;
        IF @@ROWCOUNT = 0
            INSERT INTO holdfast.gate (ns, name, last) VALUES (@ns, @gate, @at + @step);
        UPDATE holdfast.gate SET opens = last - (@burst - 1) * @step WHERE ns = @ns AND name = @gate;
    END
END
GO

-- Puts a ready job in line at a gate. What else could hold it back has one less to let through first: that gate is opened. But
-- if its queue or task holds it back, that is so for all in its lines elsewhere: then what has room keeps it until that gate
-- opens, instead of moving those lines here job by job.
CREATE PROCEDURE holdfast.park_v1
    @ns int, @now bigint, @job char(36), @queue nvarchar(200), @task nvarchar(200), @limit_key nvarchar(200),
    @gate nvarchar(220)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @freed int = 0;
    UPDATE holdfast.job SET gate = @gate, ready = NULL WHERE ns = @ns AND id = @job AND ready = 1;
    IF LEFT(@gate, 6) = N'queue:' OR LEFT(@gate, 5) = N'task:'
        INSERT INTO holdfast.behind (ns, gate, other)
        SELECT @ns, @gate, o.name
        FROM (
            SELECT (N'queue:' + @queue) COLLATE Latin1_General_BIN2 AS name
            UNION ALL SELECT (N'task:' + @task) COLLATE Latin1_General_BIN2
            UNION ALL SELECT (N'key:' + @limit_key) COLLATE Latin1_General_BIN2
        ) AS o
        WHERE o.name <> @gate
            AND EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = o.name)
            AND NOT EXISTS (
                SELECT 1 FROM holdfast.behind AS b WHERE b.ns = @ns AND b.gate = @gate AND b.other = o.name);
    ELSE
        EXEC holdfast.mark_gates_v1 @ns, @queue, @task, @limit_key, @gate;
    EXEC holdfast.open_gates_v1 @ns, @now, @freed OUTPUT;
END
GO

-- Claims ready jobs of one queue in order, and parks those that a sequence or a limit holds back; @got tells how many. The
-- instant of a claim is read after all that it went by: what it saw ended has ended before.
CREATE PROCEDURE holdfast.claim_ready_v1
    @ns int, @worker nvarchar(200), @seq bigint, @queue nvarchar(200), @turn int, @limit int, @lease bigint, @now bigint,
    @got int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @looks int = @limit + 1000;
    DECLARE @at bigint;
    DECLARE @job char(36);
    DECLARE @task nvarchar(200);
    DECLARE @limit_key nvarchar(200);
    DECLARE @sequence nvarchar(200);
    DECLARE @place bigint;
    DECLARE @gate nvarchar(220);
    SET @got = 0;
    WHILE @got < @limit AND @looks > 0
    BEGIN
        SET @job = NULL;
        SELECT TOP (1) @job = i.id, @task = i.task, @limit_key = i.limit_key, @sequence = i.sequence, @place = i.place
        FROM holdfast.job AS i WITH (UPDLOCK, ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE i.ns = @ns AND i.queue = @queue AND i.ready = 1 AND i.task IN (SELECT t.name FROM #task AS t)
        ORDER BY i.priority, i.rank, i.id;
        IF @job IS NULL
            BREAK;
        SET @looks = @looks - 1;
        EXEC holdfast.hindrance_v1
            @ns, @now, @job, @queue, @task, @limit_key, @sequence, @place, @gate OUTPUT;
        IF @gate IS NOT NULL
        BEGIN
            EXEC holdfast.park_v1 @ns, @now, @job, @queue, @task, @limit_key, @gate;
            CONTINUE;
        END
        SET @at = holdfast.now_v1();
        IF @at < @now
            SET @at = @now;
        UPDATE holdfast.job SET
            state = 1, ready = NULL, run = run + 1, version = version + 1,
            token = CASE WHEN token >= @at THEN token + 1 ELSE @at END, worker = @worker, seq = @seq,
            lease_until = @at + COALESCE(lease, @lease), started = NULL, reason = NULL, progress = NULL, progress_note = NULL
        WHERE ns = @ns AND id = @job AND ready = 1;
        IF @@ROWCOUNT = 0
            CONTINUE;
        EXEC holdfast.pass_v1 @ns, @at, @queue, @task, @limit_key;
        INSERT INTO #claimed (id, turn) VALUES (@job, @turn);
        SET @got = @got + 1;
    END
END
GO

-- The same, unless somebody keeps a row locked for long that has to be read: then it claims nothing. Needs the flow lock.
CREATE PROCEDURE holdfast.claim_flow_v1
    @ns int, @worker nvarchar(200), @seq bigint, @queue nvarchar(200), @turn int, @limit int, @lease bigint, @now bigint,
    @got int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SAVE TRANSACTION holdfast_claim;
    BEGIN TRY
        EXEC holdfast.claim_ready_v1 @ns, @worker, @seq, @queue, @turn, @limit, @lease, @now, @got OUTPUT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
            THROW;
        ROLLBACK TRANSACTION holdfast_claim;
        SET @got = 0;
    END CATCH
END
GO

-- How long until there may be more to claim for the tasks of #task in the queues of #wanted: at once if not all was looked at,
-- else when a gate opens.
CREATE PROCEDURE holdfast.opens_v1 @ns int, @now bigint, @left int, @next bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET @next = NULL;
    IF EXISTS (SELECT 1 FROM holdfast.note AS t WITH (READPAST, READCOMMITTEDLOCK) WHERE t.ns = @ns)
        OR (@left > 0 AND EXISTS (
            SELECT 1 FROM #wanted AS w
            INNER JOIN holdfast.job AS j WITH (READPAST, READCOMMITTEDLOCK) ON j.queue = w.name
            WHERE w.paused = 0 AND j.ns = @ns AND j.ready = 1 AND j.task IN (SELECT t.name FROM #task AS t)))
    BEGIN
        SET @next = 0;
        RETURN;
    END
    SELECT @next = MIN(g.opens) - @now
    FROM holdfast.gate AS g
    WHERE g.ns = @ns AND g.opens IS NOT NULL
        AND EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = g.name);
    IF @next < 0
        SET @next = 0;
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (11, '0011_claiming', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0012_limits
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 12) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Marks the gates that a limit concerns, to be looked at by the next tick.
CREATE PROCEDURE holdfast.mark_limit_v1 @ns int, @scope varchar(10), @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @gate nvarchar(220) = @scope + N':' + @name;
    IF @scope <> 'each_key'
    BEGIN
        EXEC holdfast.mark_v1 @ns, @gate;
        RETURN;
    END
    SET @gate = N'key:';
    WHILE 1 = 1
    BEGIN
        SELECT @gate = MIN(j.gate) FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate > @gate AND j.gate < N'key;';
        IF @gate IS NULL
            BREAK;
        EXEC holdfast.mark_v1 @ns, @gate;
    END
END
GO

-- Stores a limit in the place of the one with its scope and name; one that is declared replaces none that is not. Needs the
-- lock.
CREATE PROCEDURE holdfast.put_limit_v1
    @ns int, @scope varchar(10), @name nvarchar(200), @concurrency int, @rate bigint, @period bigint, @burst bigint,
    @paused bit, @weight float, @declared bit
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    IF @declared = 1 AND EXISTS (
        SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name AND l.declared = 0)
        RETURN;
    UPDATE holdfast.limits SET
        concurrency = @concurrency, rate = @rate, period = @period, burst = @burst, paused = @paused, weight = @weight,
        declared = @declared, since = CASE WHEN @paused = 1 THEN COALESCE(since, @now) END
    WHERE ns = @ns AND scope = @scope AND name = @name;
    IF @@ROWCOUNT = 0
        INSERT INTO holdfast.limits (ns, scope, name, concurrency, rate, period, burst, paused, weight, declared, since)
        VALUES (@ns, @scope, @name, @concurrency, @rate, @period, @burst, @paused, @weight, @declared,
                CASE WHEN @paused = 1 THEN @now END);
    IF @paused = 1 OR @concurrency IS NOT NULL OR @rate IS NOT NULL
        EXEC holdfast.use_flow_v1 @ns;
    EXEC holdfast.mark_limit_v1 @ns, @scope, @name;
END
GO

-- Removes a limit, if there is one; 0 if the flow lock was not to be had.
CREATE PROCEDURE holdfast.remove_limit_v1 @ns int, @scope varchar(10), @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @got bit;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
        BEGIN
            DELETE FROM holdfast.limits WHERE ns = @ns AND scope = @scope AND name = @name;
            IF @@ROWCOUNT > 0
                EXEC holdfast.mark_limit_v1 @ns, @scope, @name;
        END
        COMMIT TRANSACTION;
        SELECT @got AS got;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Puts a limit in the place of one that was read, or of none, or removes it: 2 if that is not what stands there, 0 if the flow
-- lock was not to be had.
CREATE PROCEDURE holdfast.swap_limit_v1
    @ns int, @scope varchar(10), @name nvarchar(200), @stood bit, @stood_concurrency int, @stood_rate bigint,
    @stood_period bigint, @stood_burst bigint, @stood_paused bit, @stood_weight float, @stood_declared bit, @stands bit,
    @concurrency int, @rate bigint, @period bigint, @burst bigint, @paused bit, @weight float, @declared bit
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @got bit;
    DECLARE @is_same bit = 0;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
        BEGIN
            IF @stands = 1 AND EXISTS (
                SELECT 1 FROM holdfast.limits AS l
                WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name AND EXISTS (
                    SELECT l.concurrency, l.rate, l.period, l.burst, l.paused, l.weight, l.declared
                    INTERSECT
                    SELECT @concurrency, @rate, @period, @burst, @paused, @weight, @declared))
                SET @is_same = 1;
            IF @stands = 0 AND NOT EXISTS (
                SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name)
                SET @is_same = 1;
            IF @stood = 1 AND EXISTS (
                SELECT 1 FROM holdfast.limits AS l
                WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name AND EXISTS (
                    SELECT l.concurrency, l.rate, l.period, l.burst, l.paused, l.weight, l.declared
                    INTERSECT
                    SELECT @stood_concurrency, @stood_rate, @stood_period, @stood_burst, @stood_paused, @stood_weight,
                        @stood_declared))
                SET @is_same = 1;
            IF @stood = 0 AND NOT EXISTS (
                SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name)
                SET @is_same = 1;
            IF @is_same = 1
            BEGIN
                IF @stands = 1
                BEGIN
                    -- Any limit may take the place of one that is declared.
                    UPDATE holdfast.limits SET declared = 1 WHERE ns = @ns AND scope = @scope AND name = @name;
                    EXEC holdfast.put_limit_v1 @ns, @scope, @name, @concurrency, @rate, @period, @burst, @paused, @weight,
                        @declared;
                END
                ELSE
                BEGIN
                    DELETE FROM holdfast.limits WHERE ns = @ns AND scope = @scope AND name = @name;
                    EXEC holdfast.mark_limit_v1 @ns, @scope, @name;
                END
            END
        END
        COMMIT TRANSACTION;
        SELECT CASE WHEN @got = 0 THEN 0 WHEN @is_same = 1 THEN 1 ELSE 2 END AS outcome;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Lets a job go that is held; whether it is stored.
CREATE PROCEDURE holdfast.release_v1 @ns int, @job char(36)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @flows bit;
    DECLARE @is_late bit;
    DECLARE @freed int;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.enter_flow_v1 @ns, @flows OUTPUT, @is_late OUTPUT;
        SET LOCK_TIMEOUT 2000;
        SET @now = holdfast.now_v1();
        UPDATE holdfast.done SET held = NULL WHERE ns = @ns AND id = @job AND held = 1;
        UPDATE holdfast.job SET held = NULL WHERE ns = @ns AND id = @job AND held = 1;
        IF @@ROWCOUNT > 0
        BEGIN
            INSERT INTO holdfast.note (ns, job, is_new) VALUES (@ns, @job, 1);
            IF @flows = 1 AND @is_late = 0
                EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
        END
        SELECT CASE WHEN EXISTS (
            SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job) THEN 1 ELSE 0 END AS is_stored;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Ends the halt of a sequence, if it is halted; 0 if the flow lock was not to be had.
CREATE PROCEDURE holdfast.proceed_v1 @ns int, @sequence nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @got bit;
    DECLARE @now bigint;
    DECLARE @freed int = 0;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
        BEGIN
            SET @now = holdfast.now_v1();
            EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
            DELETE FROM holdfast.halt WHERE ns = @ns AND sequence = @sequence;
            EXEC holdfast.call_v1 @ns, @now, @sequence, @freed OUTPUT;
        END
        COMMIT TRANSACTION;
        SELECT @got AS got;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Sweeps up what ended where nothing was ever held back.
CREATE PROCEDURE holdfast.sweep_notes_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @got bit;
    DECLARE @swept int = 1;
    EXEC holdfast.take_flow_v1 @ns, 'Shared', 1, @got OUTPUT;
    IF @got = 0 OR EXISTS (
        SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        RETURN;
    -- Who is just beginning to use flow has notes of new jobs, which will be looked at later, and tell the same.
    WHILE @swept > 0
    BEGIN
        DELETE TOP (1000) FROM holdfast.note WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE ns = @ns AND is_new = 0;
        SET @swept = @@ROWCOUNT;
    END
END
GO

-- Sweeps up gates and halts that no job needs any more, unless somebody has the flow lock. Halts of jobs that are gone are
-- noted.
CREATE PROCEDURE holdfast.sweep_gates_v1 @ns int, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @got bit;
    EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 0, @got OUTPUT;
    IF @got = 0
        RETURN;
    INSERT INTO holdfast.note (ns, job, is_new, sequence)
    SELECT @ns, h.job, 0, h.sequence FROM holdfast.halt AS h
    WHERE h.ns = @ns AND NOT EXISTS (SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = h.job);
    DELETE FROM holdfast.gate WHERE ns = @ns AND last <= @now AND opens IS NULL;
    DELETE FROM holdfast.behind
    WHERE ns = @ns AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = holdfast.behind.other);
END
GO

-- Sweeps up what no job needs any more.
CREATE PROCEDURE holdfast.sweep_flow_v1 @ns int, @now bigint, @limit int
AS
BEGIN
    SET NOCOUNT ON;
    IF NOT EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        EXEC holdfast.sweep_notes_v1 @ns;
    ELSE
        EXEC holdfast.sweep_gates_v1 @ns, @now;
    DELETE TOP (@limit) FROM holdfast.fair WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE ns = @ns AND last <= @now AND NOT EXISTS (
        SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.queue = holdfast.fair.queue AND j.ready = 1);
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (12, '0012_limits', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0013_fleet
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 13) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Makes a worker known, or replaces what it said.
CREATE PROCEDURE holdfast.register_v1
    @ns int, @id nvarchar(200), @host nvarchar(400), @pid int, @queues nvarchar(max), @tasks nvarchar(max), @concurrency int,
    @version nvarchar(200), @lease bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @now bigint = holdfast.now_v1();
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.worker
            SET host = @host, pid = @pid, queues = @queues, tasks = @tasks, concurrency = @concurrency, version = @version,
                seen = @now, live_until = @now + @lease
            WHERE ns = @ns AND id = @id;
            IF @@ROWCOUNT = 1
                RETURN;
            INSERT INTO holdfast.worker
                (ns, id, host, pid, queues, tasks, concurrency, version, started, seen, live_until)
            VALUES (@ns, @id, @host, @pid, @queues, @tasks, @concurrency, @version, @now, @now, @now + @lease);
            RETURN;
        END TRY
        BEGIN CATCH
            -- Another has made it known meanwhile, if it is one of these.
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

CREATE PROCEDURE holdfast.pause_v1 @ns int, @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @now bigint = holdfast.now_v1();
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.queue SET paused = 1, since = COALESCE(since, @now) WHERE ns = @ns AND name = @name;
            IF @@ROWCOUNT = 1
                RETURN;
            INSERT INTO holdfast.queue (ns, name, paused, since) VALUES (@ns, @name, 1, @now);
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- The queues, whether each is paused and since when, and how long its first jobs have waited at most. Goes from name to name,
-- and of what is ready from priority to priority, along the indexes, so that many jobs in few queues cost little; of more
-- than a hundred priorities of a queue the rest is left out.
CREATE PROCEDURE holdfast.queues_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    DECLARE @known TABLE (name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL, since bigint NULL);
    DECLARE @name nvarchar(200) = N'';
    DECLARE @priority bigint;
    DECLARE @since bigint;
    DECLARE @due bigint;
    DECLARE @n int;
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @name = j.queue, @priority = j.priority,
            @since = CASE WHEN j.due > j.created THEN j.due ELSE j.created END
        FROM holdfast.job AS j WHERE j.ns = @ns AND j.ready = 1 AND j.queue > @name
        ORDER BY j.queue, j.priority, j.rank, j.id;
        IF @@ROWCOUNT = 0
            BREAK;
        SET @n = 1;
        WHILE @n <= 100
        BEGIN
            INSERT INTO @known (name, since) VALUES (@name, @since);
            SELECT TOP (1) @priority = j.priority, @since = CASE WHEN j.due > j.created THEN j.due ELSE j.created END
            FROM holdfast.job AS j WHERE j.ns = @ns AND j.ready = 1 AND j.queue = @name AND j.priority > @priority
            ORDER BY j.priority, j.rank, j.id;
            IF @@ROWCOUNT = 0
                BREAK;
            SET @n = @n + 1;
        END
    END
    SET @name = N'';
    WHILE 1 = 1
    BEGIN
        SELECT TOP (1) @name = j.queue, @due = j.due, @since = CASE WHEN j.due > j.created THEN j.due ELSE j.created END
        FROM holdfast.job AS j WHERE j.ns = @ns AND j.ready = 0 AND j.queue > @name ORDER BY j.queue, j.due;
        IF @@ROWCOUNT = 0
            BREAK;
        INSERT INTO @known (name, since) VALUES (@name, CASE WHEN @due <= @now THEN @since END);
    END
    INSERT INTO @known (name) SELECT DISTINCT j.queue FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate IS NOT NULL;
    INSERT INTO @known (name) SELECT DISTINCT j.queue FROM holdfast.job AS j WHERE j.ns = @ns AND j.worker IS NOT NULL;
    INSERT INTO @known (name) SELECT q.name FROM holdfast.queue AS q WHERE q.ns = @ns;
    SELECT k.name, COALESCE(q.paused, 0) AS paused, q.since, @now - k.since AS oldest
    FROM (SELECT n.name, MIN(n.since) AS since FROM @known AS n GROUP BY n.name) AS k
    LEFT JOIN holdfast.queue AS q ON q.ns = @ns AND q.name = k.name
    ORDER BY k.name;
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (13, '0013_fleet', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0014_locks
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 14) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Named locks: who holds each, under which token, until when, and the mark of where. A row that has ended says nothing, and is
-- swept away. Calls about one lock come one after the other: each begins by counting itself in turns, and so has the row.
CREATE TABLE holdfast.lock (
    ns int NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    until bigint NOT NULL,
    token bigint NOT NULL,
    turns bigint NOT NULL,
    owner nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL,
    mark varchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_lock_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_lock_until ON holdfast.lock (until);
GO

-- Who stands in line for a lock, in the order of arrival, until when, and the mark of where it waits.
CREATE TABLE holdfast.lock_line (
    arrival bigint IDENTITY(1, 1) NOT NULL,
    ns int NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    owner nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL,
    mark varchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    until bigint NOT NULL,
    CONSTRAINT holdfast_lock_line_pkey PRIMARY KEY CLUSTERED (ns, name, arrival),
    CONSTRAINT holdfast_lock_line_owner UNIQUE (ns, name, owner)
);
CREATE INDEX holdfast_lock_line_until ON holdfast.lock_line (until);
GO

-- The last token of any lock of the namespace.
CREATE TABLE holdfast.lock_token (
    ns int NOT NULL,
    token bigint NOT NULL,
    CONSTRAINT holdfast_lock_token_pkey PRIMARY KEY CLUSTERED (ns)
);
GO

-- Waits until no other call about the lock is under way. Its row is there then, even if nobody holds it.
CREATE PROCEDURE holdfast.lock_enter_v1 @ns int, @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.lock SET turns = turns + 1 WHERE ns = @ns AND name = @name;
            IF @@ROWCOUNT = 1
                RETURN;
            INSERT INTO holdfast.lock (ns, name, until, token, turns, owner, mark) VALUES (@ns, @name, 0, 0, 0, '', '');
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- The next token of the namespace: above the last one, and no less than the clock.
CREATE PROCEDURE holdfast.lock_token_v1 @ns int, @now bigint, @token bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.lock_token SET token = CASE WHEN token >= @now THEN token + 1 ELSE @now END WHERE ns = @ns;
            IF @@ROWCOUNT = 0
                INSERT INTO holdfast.lock_token (ns, token) VALUES (@ns, @now);
            SELECT @token = t.token FROM holdfast.lock_token AS t WHERE t.ns = @ns;
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- Gives the token, or the time until it could be granted if nobody did anything; no more than @deaf if somebody before the
-- owner is elsewhere, from where no wake-up comes.
CREATE PROCEDURE holdfast.lock_acquire_v1
    @ns int, @name nvarchar(200), @owner nvarchar(300), @ttl bigint, @place bigint, @mark varchar(64), @deaf bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @token bigint;
    DECLARE @held nvarchar(300);
    DECLARE @until bigint;
    DECLARE @arrival bigint;
    DECLARE @before bigint;
    DECLARE @elsewhere int = 0;
    DECLARE @after bigint = 0;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.lock_enter_v1 @ns, @name;
        -- Read when the row is had: a renewal that was under way may have begun before the end of the lease.
        SET @now = holdfast.now_v1();
        SELECT @held = k.owner, @token = k.token, @until = k.until, @elsewhere = CASE WHEN k.mark = @mark THEN 0 ELSE 1 END
        FROM holdfast.lock AS k WHERE k.ns = @ns AND k.name = @name AND k.until > @now;
        IF @held = @owner COLLATE Latin1_General_BIN2
        BEGIN
            UPDATE holdfast.lock SET until = CASE WHEN until > @now + @ttl THEN until ELSE @now + @ttl END
            WHERE ns = @ns AND name = @name;
            COMMIT TRANSACTION;
            SELECT @token AS token, @after AS after;
            RETURN;
        END
        SET @token = NULL;
        DELETE FROM holdfast.lock_line WHERE ns = @ns AND name = @name AND until <= @now;
        SELECT @arrival = l.arrival FROM holdfast.lock_line AS l WHERE l.ns = @ns AND l.name = @name AND l.owner = @owner;
        SELECT @before = MAX(l.until), @elsewhere = @elsewhere + COUNT(CASE WHEN l.mark <> @mark THEN 1 END)
        FROM holdfast.lock_line AS l
        WHERE l.ns = @ns AND l.name = @name AND (@arrival IS NULL OR l.arrival < @arrival);
        IF @held IS NULL AND @before IS NULL
        BEGIN
            DELETE FROM holdfast.lock_line WHERE ns = @ns AND name = @name AND owner = @owner;
            EXEC holdfast.lock_token_v1 @ns, @now, @token OUTPUT;
            UPDATE holdfast.lock SET owner = @owner, token = @token, until = @now + @ttl, mark = @mark
            WHERE ns = @ns AND name = @name;
        END
        ELSE
        BEGIN
            IF @arrival IS NOT NULL AND @place > 0
                UPDATE holdfast.lock_line SET until = @now + @place WHERE ns = @ns AND name = @name AND owner = @owner;
            ELSE IF @place > 0
                INSERT INTO holdfast.lock_line (ns, name, owner, mark, until) VALUES (@ns, @name, @owner, @mark, @now + @place);
            SET @after = CASE WHEN @before IS NULL OR @until > @before THEN @until ELSE @before END - @now;
            IF @elsewhere > 0 AND @after > @deaf
                SET @after = @deaf;
        END
        COMMIT TRANSACTION;
        -- What ended long ago and nobody asks for, each by itself and with nothing held: nobody waits for this.
        IF @token IS NOT NULL
        BEGIN
            DELETE TOP (2) FROM holdfast.lock WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE until <= @now - 60000000;
            DELETE TOP (2) FROM holdfast.lock_line WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE until <= @now - 60000000;
        END
        SELECT @token AS token, @after AS after;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Prolongs what is held, and gives the places of that. In the order of their names, so that two such calls cannot wait for
-- each other.
CREATE PROCEDURE holdfast.lock_renew_v1 @ns int, @holds nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @turn int = 1;
    DECLARE @name nvarchar(200);
    DECLARE @owner nvarchar(300);
    DECLARE @token bigint;
    DECLARE @ttl bigint;
    CREATE TABLE #hold (
        turn int NOT NULL PRIMARY KEY,
        place int NOT NULL,
        name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        owner nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL,
        token bigint NOT NULL,
        ttl bigint NOT NULL,
        is_held bit NOT NULL
    );
    INSERT INTO #hold (turn, place, name, owner, token, ttl, is_held)
    SELECT
        ROW_NUMBER() OVER (ORDER BY h.name COLLATE Latin1_General_BIN2, h.place), h.place, h.name, h.owner, h.token, h.ttl, 0
    FROM OPENJSON(@holds) WITH (
        place int '$.place', name nvarchar(200) '$.name', owner nvarchar(300) '$.owner', token bigint '$.token', ttl bigint '$.ttl'
    ) AS h;
    BEGIN TRY
        BEGIN TRANSACTION;
        WHILE 1 = 1
        BEGIN
            SET @name = NULL;
            SELECT @name = h.name, @owner = h.owner, @token = h.token, @ttl = h.ttl FROM #hold AS h WHERE h.turn = @turn;
            IF @name IS NULL
                BREAK;
            UPDATE holdfast.lock SET turns = turns + 1 WHERE ns = @ns AND name = @name AND owner = @owner AND token = @token;
            IF @@ROWCOUNT = 1
            BEGIN
                SET @now = holdfast.now_v1();
                UPDATE holdfast.lock SET until = CASE WHEN until > @now + @ttl THEN until ELSE @now + @ttl END
                WHERE ns = @ns AND name = @name AND owner = @owner AND token = @token AND until > @now;
                IF @@ROWCOUNT = 1
                    UPDATE #hold SET is_held = 1 WHERE turn = @turn;
            END
            SET @turn = @turn + 1;
        END
        COMMIT TRANSACTION;
        SELECT h.place FROM #hold AS h WHERE h.is_held = 1;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Frees the lock, without a token also the owner's place. Gives the owner whose turn it is thereby.
CREATE PROCEDURE holdfast.lock_release_v1 @ns int, @name nvarchar(200), @owner nvarchar(300), @token bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @gone int = 0;
    DECLARE @next nvarchar(300);
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.lock_enter_v1 @ns, @name;
        SET @now = holdfast.now_v1();
        IF @token IS NULL
        BEGIN
            DELETE FROM holdfast.lock_line WHERE ns = @ns AND name = @name AND owner = @owner;
            SET @gone = @@ROWCOUNT;
        END
        DELETE FROM holdfast.lock
        WHERE ns = @ns AND name = @name AND owner = @owner AND (@token IS NULL OR token = @token);
        SET @gone = @gone + @@ROWCOUNT;
        DELETE FROM holdfast.lock WHERE ns = @ns AND name = @name AND until <= @now;
        IF @gone > 0 AND NOT EXISTS (SELECT 1 FROM holdfast.lock AS k WHERE k.ns = @ns AND k.name = @name)
            SELECT TOP (1) @next = l.owner FROM holdfast.lock_line AS l
            WHERE l.ns = @ns AND l.name = @name AND l.until > @now ORDER BY l.arrival;
        COMMIT TRANSACTION;
        SELECT @next AS owner;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (14, '0014_locks', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0015_schedules
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 15) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Recurring work. mark: of the last write. look_at: when to look at it. job: the one that it fired last; with waits it is to
-- be looked at as soon as that job is not live.
CREATE TABLE holdfast.schedule (
    ns int NOT NULL,
    name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL,
    version bigint NOT NULL,
    look_at bigint NULL,
    job char(36) COLLATE Latin1_General_BIN2 NULL,
    waits bit NOT NULL,
    mark nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    [definition] varbinary(max) NOT NULL,
    state varbinary(max) NOT NULL,
    CONSTRAINT holdfast_schedule_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_schedule_look ON holdfast.schedule (ns, look_at, name) WHERE look_at IS NOT NULL;
CREATE INDEX holdfast_schedule_waits ON holdfast.schedule (ns, name) INCLUDE (job, look_at) WHERE waits = 1;
GO

-- Writes one schedule of #write, and says there what became of it.
CREATE PROCEDURE holdfast.schedule_put_one_v1 @ns int, @turn int, @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @name nvarchar(410);
    DECLARE @version bigint;
    DECLARE @mark nvarchar(200);
    DECLARE @after nvarchar(200);
    DECLARE @look_at bigint;
    DECLARE @job char(36);
    DECLARE @waits bit;
    DECLARE @definition varbinary(max);
    DECLARE @state varbinary(max);
    DECLARE @rows int = 0;
    SELECT
        @name = w.name, @version = w.version, @mark = w.mark, @after = w.after_mark, @look_at = w.look_at, @job = w.job,
        @waits = w.waits, @definition = SUBSTRING(@bytes, w.definition_at, w.definition_size),
        @state = SUBSTRING(@bytes, w.state_at, w.state_size)
    FROM #write AS w WHERE w.turn = @turn;
    BEGIN TRY
        IF @version = 0 AND @after IS NULL
        BEGIN
            IF NOT EXISTS (SELECT 1 FROM holdfast.schedule AS s WHERE s.ns = @ns AND s.name = @name)
            BEGIN
                INSERT INTO holdfast.schedule (ns, name, version, mark, look_at, job, waits, [definition], state)
                VALUES (@ns, @name, 1, @mark, @look_at, @job, @waits, @definition, @state);
                SET @rows = 1;
            END
        END
        ELSE
        BEGIN
            UPDATE holdfast.schedule
            SET version = version + 1, mark = @mark, look_at = @look_at, job = @job, waits = @waits, [definition] = @definition,
                state = @state
            WHERE ns = @ns AND name = @name AND version = @version AND mark = COALESCE(@after, mark);
            SET @rows = @@ROWCOUNT;
        END
    END TRY
    BEGIN CATCH
        -- Another has put one there meanwhile, if it is one of these.
        IF ERROR_NUMBER() NOT IN (2601, 2627)
            THROW;
    END CATCH
    IF @rows = 1
        UPDATE #write SET is_written = 1, is_refused = 0 WHERE turn = @turn;
    ELSE IF EXISTS (
        -- The last that was written: a repeat.
        SELECT 1 FROM holdfast.schedule AS s
        WHERE s.ns = @ns AND s.name = @name AND s.version = @version + 1 AND s.mark = @mark)
        UPDATE #write SET is_refused = 0 WHERE turn = @turn;
END
GO

-- Writes schedules, one by one in the order of their names, so that two such calls do not wait for each other; then the jobs
-- and events of those that were written, which tell by `of` to which place they belong, counted from 1. Fills #refused with the
-- places of those that were refused.
CREATE PROCEDURE holdfast.schedule_put_v1
    @ns int, @now bigint, @writes nvarchar(max), @jobs nvarchar(max), @events nvarchar(max), @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @turn int = 1;
    DECLARE @last int;
    DECLARE @without nvarchar(max);
    CREATE TABLE #write (
        turn int NOT NULL PRIMARY KEY,
        place int NOT NULL,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL,
        version bigint NOT NULL,
        mark nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        after_mark nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        look_at bigint NULL,
        job char(36) COLLATE Latin1_General_BIN2 NULL,
        waits bit NOT NULL,
        definition_at int NOT NULL,
        definition_size int NOT NULL,
        state_at int NOT NULL,
        state_size int NOT NULL,
        is_written bit NOT NULL,
        is_refused bit NOT NULL
    );
    CREATE TABLE #new (
        n int NOT NULL PRIMARY KEY,
        id char(36) COLLATE Latin1_General_BIN2 NOT NULL,
        task nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        priority bigint NOT NULL,
        due bigint NOT NULL,
        rank bigint NOT NULL,
        place bigint NULL,
        job_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        key_ttl bigint NULL,
        tags nvarchar(max) NULL,
        lease bigint NULL,
        timeout bigint NULL,
        payload varbinary(max) NOT NULL,
        retry varbinary(max) NULL,
        headers varbinary(max) NULL,
        limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        halts bit NULL,
        after_json nvarchar(max) NULL,
        after_any bit NULL,
        before_id char(36) COLLATE Latin1_General_BIN2 NULL,
        held bit NULL,
        expires bigint NULL,
        joined bit NOT NULL,
        stood char(36) COLLATE Latin1_General_BIN2 NULL,
        stood_by varchar(3) NULL
    );
    CREATE TABLE #key (name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
    INSERT INTO #write (
        turn, place, name, version, mark, after_mark, look_at, job, waits, definition_at, definition_size, state_at, state_size,
        is_written, is_refused)
    SELECT
        ROW_NUMBER() OVER (ORDER BY w.name COLLATE Latin1_General_BIN2, w.place), w.place, w.name, w.version, w.mark,
        w.after_mark, w.look_at, w.job, w.waits, w.definition_at, w.definition_size, w.state_at, w.state_size, 0, 1
    FROM OPENJSON(@writes) WITH (
        place int '$.place', name nvarchar(410) '$.name', version bigint '$.version', mark nvarchar(200) '$.mark',
        after_mark nvarchar(200) '$.after', look_at bigint '$.look_at', job char(36) '$.job', waits bit '$.waits',
        definition_at int '$.definition_at', definition_size int '$.definition_size', state_at int '$.state_at',
        state_size int '$.state_size'
    ) AS w;
    SELECT @last = MAX(w.turn) FROM #write AS w;
    WHILE @turn <= @last
    BEGIN
        EXEC holdfast.schedule_put_one_v1 @ns, @turn, @bytes;
        SET @turn = @turn + 1;
    END
    IF @jobs IS NOT NULL
    BEGIN
        EXEC holdfast.open_new_v1 @now, @jobs, @bytes;
        DELETE FROM #new WHERE n NOT IN (
            SELECT j.n FROM OPENJSON(@jobs) WITH (n int '$.n', place int '$.of') AS j
            INNER JOIN #write AS w ON w.place = j.place AND w.is_written = 1);
        IF EXISTS (SELECT 1 FROM #new)
            EXEC holdfast.add_new_v1 @ns, @now;
        EXEC holdfast.free_keys_v1 @ns;
    END
    IF @events IS NOT NULL
    BEGIN
        SELECT @without = CONCAT('[', STRING_AGG(CAST(w.place AS nvarchar(max)), ','), ']') FROM #write AS w WHERE w.is_written = 0;
        EXEC holdfast.append_v1 @ns, @now, @events, @bytes, @without;
    END
    INSERT INTO #refused (place) SELECT w.place FROM #write AS w WHERE w.is_refused = 1;
END
GO

-- The same in a transaction of its own, and under a term if there is one; @lock is null if not. Gives the places of those that
-- were refused, each behind a comma; null if the lock is not held under the term. Waits for others a second, or next to nothing
-- if it is @hasty.
CREATE PROCEDURE holdfast.schedule_write_v1
    @ns int, @lock nvarchar(200), @owner nvarchar(300), @token bigint, @writes nvarchar(max), @jobs nvarchar(max),
    @events nvarchar(max), @bytes varbinary(max), @hasty bit
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @refused nvarchar(max);
    CREATE TABLE #refused (place int NOT NULL);
    BEGIN TRY
        BEGIN TRANSACTION;
        IF @lock IS NOT NULL
        BEGIN
            -- Until the commit nobody can take, free or renew the lock.
            UPDATE holdfast.lock SET turns = turns + 1 WHERE ns = @ns AND name = @lock AND owner = @owner AND token = @token;
            SET @now = holdfast.now_v1();
            IF NOT EXISTS (
                SELECT 1 FROM holdfast.lock AS k
                WHERE k.ns = @ns AND k.name = @lock AND k.owner = @owner AND k.token = @token AND k.until > @now)
            BEGIN
                COMMIT TRANSACTION;
                SELECT @refused AS refused;
                RETURN;
            END
        END
        SET @now = holdfast.now_v1();
        IF @hasty = 1
            SET LOCK_TIMEOUT 10;
        ELSE
            SET LOCK_TIMEOUT 1000;
        EXEC holdfast.schedule_put_v1 @ns, @now, @writes, @jobs, @events, @bytes;
        SELECT @refused = COALESCE(STRING_AGG(CONCAT(CAST(',' AS nvarchar(max)), r.place), ''), '') FROM #refused AS r;
        COMMIT TRANSACTION;
        SELECT @refused AS refused;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- One schedule as part of the caller's transaction, with its jobs and events; refused also if the lock is not held under the
-- term. The lock's row stays free, so that it can be renewed, or taken when it has ended: of two who write, the version
-- decides.
CREATE PROCEDURE holdfast.write_in_v1
    @ns int, @lock nvarchar(200), @owner nvarchar(300), @token bigint, @writes nvarchar(max), @jobs nvarchar(max),
    @events nvarchar(max), @bytes varbinary(max), @is_accepted bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint = holdfast.now_v1();
    CREATE TABLE #refused (place int NOT NULL);
    SET @is_accepted = 0;
    IF EXISTS (
        SELECT 1 FROM holdfast.lock AS k WITH (READCOMMITTEDLOCK)
        WHERE k.ns = @ns AND k.name = @lock AND k.owner = @owner AND k.token = @token AND k.until > @now)
    BEGIN
        EXEC holdfast.schedule_put_v1 @ns, @now, @writes, @jobs, @events, @bytes;
        IF NOT EXISTS (SELECT 1 FROM #refused)
            SET @is_accepted = 1;
    END
END
GO

-- Gives the schedules of #named in the order of their places, with what became of their jobs.
CREATE PROCEDURE holdfast.schedules_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #run (
        job char(36) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY,
        is_live bit NOT NULL,
        started bigint NULL
    );
    -- Live ones by a statement of their own: one that ends after it is found among those that have ended.
    INSERT INTO #run (job, is_live, started)
    SELECT l.id, 1, MAX(l.started) FROM #named AS n
    INNER JOIN holdfast.schedule AS s ON s.ns = @ns AND s.name = n.name
    INNER JOIN holdfast.live AS l ON l.ns = @ns AND l.id = s.job
    GROUP BY l.id;
    SELECT
        s.name, s.version, s.mark, s.[definition], s.state, s.look_at, s.job, s.waits, COALESCE(r.is_live, 0) AS live,
        CASE WHEN r.job IS NULL THEN d.started ELSE r.started END AS started,
        CASE WHEN r.job IS NULL THEN d.finished END AS finished
    FROM #named AS n
    INNER JOIN holdfast.schedule AS s ON s.ns = @ns AND s.name = n.name
    LEFT JOIN #run AS r ON r.job = s.job
    LEFT JOIN holdfast.done AS d ON d.ns = @ns AND d.id = s.job
    ORDER BY n.place;
END
GO

-- The store's now, and schedules by their names.
CREATE PROCEDURE holdfast.schedules_get_v1 @ns int, @names nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #named (
        place int NOT NULL PRIMARY KEY,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL
    );
    INSERT INTO #named (place, name) SELECT CAST(j.[key] AS int), j.value FROM OPENJSON(@names) AS j;
    SELECT holdfast.now_v1() AS now, CAST(NULL AS bigint) AS next_look;
    EXEC holdfast.schedules_v1 @ns;
END
GO

-- The same for up to so many behind a name.
CREATE PROCEDURE holdfast.schedules_after_v1 @ns int, @after nvarchar(410), @limit int
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #named (
        place int IDENTITY(1, 1) NOT NULL PRIMARY KEY,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL
    );
    INSERT INTO #named (name)
    SELECT TOP (@limit) s.name FROM holdfast.schedule AS s WHERE s.ns = @ns AND s.name > @after ORDER BY s.name;
    SELECT holdfast.now_v1() AS now, CAST(NULL AS bigint) AS next_look;
    EXEC holdfast.schedules_v1 @ns;
END
GO

-- The same for those to be looked at now, and how long until the next.
CREATE PROCEDURE holdfast.schedules_due_v1 @ns int, @limit int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    DECLARE @next bigint;
    DECLARE @found int;
    CREATE TABLE #named (
        place int IDENTITY(1, 1) NOT NULL PRIMARY KEY,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL
    );
    INSERT INTO #named (name)
    SELECT TOP (@limit + 1) s.name FROM holdfast.schedule AS s
    WHERE s.ns = @ns AND s.look_at <= @now ORDER BY s.look_at, s.name;
    SELECT @found = COUNT(*) FROM #named;
    IF @found > @limit
    BEGIN
        DELETE FROM #named WHERE place = (SELECT MAX(n.place) FROM #named AS n);
        SET @next = 0;
    END
    ELSE
    BEGIN
        SELECT @next = MIN(s.look_at) - @now FROM holdfast.schedule AS s WHERE s.ns = @ns AND s.look_at > @now;
        INSERT INTO #named (name)
        SELECT TOP (@limit - @found) s.name FROM holdfast.schedule AS s
        WHERE s.ns = @ns AND s.waits = 1 AND (s.look_at IS NULL OR s.look_at > @now)
            AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = s.job)
        ORDER BY s.name;
    END
    SELECT @now AS now, @next AS next_look;
    EXEC holdfast.schedules_v1 @ns;
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (15, '0015_schedules', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO

-- 0016_events
IF EXISTS (SELECT 1 FROM holdfast.step AS s WHERE s.version = 16) SET NOEXEC ON;
GO

BEGIN TRANSACTION;
GO

-- Events that have no position yet, in the order of n. Whoever appends one only adds a row and waits for nobody: that the
-- same id came twice is found when they are given positions. Aggregates end with a full stop that is no part of them.
CREATE TABLE holdfast.outbox (
    ns int NOT NULL,
    n bigint IDENTITY(1, 1) NOT NULL,
    at bigint NOT NULL,
    id nvarchar(100) COLLATE Latin1_General_BIN2 NOT NULL,
    topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    type nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate nvarchar(401) COLLATE Latin1_General_BIN2 NULL,
    data varbinary(max) NOT NULL,
    headers varbinary(max) NULL,
    CONSTRAINT holdfast_outbox_pkey PRIMARY KEY CLUSTERED (ns, n)
);
-- Else a transaction that appends thousands would have the whole table, and everybody would wait for it.
EXEC ('ALTER TABLE holdfast.outbox SET (LOCK_ESCALATION = DISABLE)');
GO

-- Events in their order. Rows are added, and removed once they are old; nothing changes them.
CREATE TABLE holdfast.event (
    ns int NOT NULL,
    position bigint NOT NULL,
    at bigint NOT NULL,
    version bigint NULL,
    id nvarchar(100) COLLATE Latin1_General_BIN2 NOT NULL,
    topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    type nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate nvarchar(401) COLLATE Latin1_General_BIN2 NULL,
    data varbinary(max) NOT NULL,
    headers varbinary(max) NULL,
    CONSTRAINT holdfast_event_pkey PRIMARY KEY CLUSTERED (ns, position),
    CONSTRAINT holdfast_event_id UNIQUE (ns, id)
);
CREATE INDEX holdfast_event_topic ON holdfast.event (ns, topic, position) INCLUDE (at);
CREATE INDEX holdfast_event_aggregate ON holdfast.event (ns, topic, aggregate, position) INCLUDE (version)
    WHERE aggregate IS NOT NULL;
GO

-- The last position that was given. Whoever gives positions or removes events counts itself in turns, and so has the row.
CREATE TABLE holdfast.event_head (
    ns int NOT NULL,
    last bigint NOT NULL,
    turns bigint NOT NULL,
    CONSTRAINT holdfast_event_head_pkey PRIMARY KEY CLUSTERED (ns)
);
GO

-- The highest version of those aggregates of a topic of which no event is kept. The last version of any other stands with
-- its last event: those of a topic are removed from the first on.
CREATE TABLE holdfast.event_floor (
    ns int NOT NULL,
    topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT holdfast_event_floor_pkey PRIMARY KEY CLUSTERED (ns, topic)
);
GO

-- Appends events of a JSON array in the order of n, but for those whose `of` is in the JSON array @without.
CREATE PROCEDURE holdfast.append_v1
    @ns int, @now bigint, @events nvarchar(max), @bytes varbinary(max), @without nvarchar(max) = NULL
AS
BEGIN
    SET NOCOUNT ON;
    IF @now IS NULL
        SET @now = holdfast.now_v1();
    INSERT INTO holdfast.outbox (ns, at, id, topic, type, aggregate, data, headers)
    SELECT
        @ns, @now, e.id, e.topic, e.type, e.aggregate, SUBSTRING(@bytes, e.data_at, e.data_size),
        SUBSTRING(@bytes, e.headers_at, e.headers_size)
    FROM OPENJSON(@events) WITH (
        n int '$.n', place int '$.of', id nvarchar(100) '$.id', topic nvarchar(200) '$.topic', type nvarchar(200) '$.type',
        aggregate nvarchar(401) '$.aggregate', data_at int '$.data_at', data_size int '$.data_size',
        headers_at int '$.headers_at', headers_size int '$.headers_size'
    ) AS e
    WHERE NOT EXISTS (SELECT 1 FROM OPENJSON(@without) WITH (place int '$') AS x WHERE x.place = e.place)
    ORDER BY e.n;
END
GO

-- Appends events in a transaction of its own, with jobs if there are any; their answers are those of add.
CREATE PROCEDURE holdfast.append_jobs_v1
    @ns int, @events nvarchar(max), @events_bytes varbinary(max), @jobs nvarchar(max), @jobs_bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.append_v1 @ns, NULL, @events, @events_bytes;
        IF @jobs IS NOT NULL
            EXEC holdfast.add_v1 @ns, @jobs, @jobs_bytes;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Takes the row of the head, so that nobody else gives positions or removes events until the commit.
CREATE PROCEDURE holdfast.event_enter_v1 @ns int, @last bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.event_head SET turns = turns + 1 WHERE ns = @ns;
            IF @@ROWCOUNT = 0
                INSERT INTO holdfast.event_head (ns, last, turns) VALUES (@ns, 0, 0);
            SELECT @last = h.last FROM holdfast.event_head AS h WHERE h.ns = @ns;
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- Gives positions to some of what is in the outbox and committed; @more says whether there may be more of it. One whose id is
-- stored is dropped. What others have not committed is passed over, and gets a later place.
CREATE PROCEDURE holdfast.sequence_v1 @ns int, @limit int, @more bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @most bigint = 16000000;
    DECLARE @last bigint;
    DECLARE @full bigint;
    DECLARE @placed bigint;
    CREATE TABLE #taken (
        n bigint NOT NULL PRIMARY KEY,
        size bigint NOT NULL,
        copy bigint NOT NULL
    );
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.event_enter_v1 @ns, @last OUTPUT;
        INSERT INTO #taken (n, size, copy)
        SELECT f.n, f.size, ROW_NUMBER() OVER (PARTITION BY f.id ORDER BY f.n)
        FROM (
            SELECT TOP (@limit) o.n, o.id, DATALENGTH(o.data) AS size
            FROM holdfast.outbox AS o WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
            WHERE o.ns = @ns ORDER BY o.n
        ) AS f;
        SET @more = CASE WHEN @@ROWCOUNT >= @limit THEN 1 ELSE 0 END;
        SELECT @full = MIN(s.n)
        FROM (SELECT t.n, SUM(t.size) OVER (ORDER BY t.n ROWS UNBOUNDED PRECEDING) AS size FROM #taken AS t) AS s
        WHERE s.size >= @most;
        IF @full IS NOT NULL
        BEGIN
            DELETE FROM #taken WHERE n > @full;
            SET @more = 1;
        END
        INSERT INTO holdfast.event (ns, position, at, version, id, topic, type, aggregate, data, headers)
        SELECT
            @ns, @last + ROW_NUMBER() OVER (ORDER BY o.n), o.at,
            CASE WHEN o.aggregate IS NOT NULL THEN ROW_NUMBER() OVER (PARTITION BY o.topic, o.aggregate ORDER BY o.n) + COALESCE(
                (SELECT TOP (1) e.version FROM holdfast.event AS e
                WHERE e.ns = @ns AND e.topic = o.topic AND e.aggregate = o.aggregate ORDER BY e.position DESC),
                (SELECT f.version FROM holdfast.event_floor AS f WHERE f.ns = @ns AND f.topic = o.topic), 0) END,
            o.id, o.topic, o.type, o.aggregate, o.data, o.headers
        FROM #taken AS t
        INNER JOIN holdfast.outbox AS o WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) ON o.ns = @ns AND o.n = t.n
        WHERE t.copy = 1 AND NOT EXISTS (SELECT 1 FROM holdfast.event AS e WHERE e.ns = @ns AND e.id = o.id);
        SET @placed = @@ROWCOUNT;
        UPDATE holdfast.event_head SET last = @last + @placed WHERE ns = @ns;
        DELETE FROM holdfast.outbox WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE ns = @ns AND n IN (SELECT t.n FROM #taken AS t);
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Gives positions to what is committed by now, in up to so many rounds; @last is the last one.
CREATE PROCEDURE holdfast.sequence_all_v1 @ns int, @rounds int, @last bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @more bit = 1;
    IF NOT EXISTS (SELECT 1 FROM holdfast.outbox AS o WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE o.ns = @ns)
        SET @more = 0;
    WHILE @more = 1 AND @rounds > 0
    BEGIN
        EXEC holdfast.sequence_v1 @ns, 1000, @more OUTPUT;
        SET @rounds = @rounds - 1;
    END
    SET @last = 0;
    SELECT @last = h.last FROM holdfast.event_head AS h WHERE h.ns = @ns;
END
GO

-- The last position of all that is committed by now.
CREATE PROCEDURE holdfast.last_event_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @last bigint;
    EXEC holdfast.sequence_all_v1 @ns, 2147483647, @last OUTPUT;
    SELECT @last AS last;
END
GO

-- The last position that is looked at; then up to so many events behind one, and none behind so many bytes of data: all, those
-- of a topic, or of its aggregate.
CREATE PROCEDURE holdfast.read_events_v1
    @ns int, @after bigint, @limit int, @topic nvarchar(200), @aggregate nvarchar(401), @most bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @last bigint;
    DECLARE @page TABLE (position bigint NOT NULL PRIMARY KEY, size bigint NOT NULL);
    EXEC holdfast.sequence_all_v1 @ns, 10, @last OUTPUT;
    SELECT @last AS last;
    -- Up to there only: who gives positions beyond it is not waited for.
    IF @topic IS NULL
        INSERT INTO @page (position, size)
        SELECT TOP (@limit) e.position, DATALENGTH(e.data) FROM holdfast.event AS e
        WHERE e.ns = @ns AND e.position > @after AND e.position <= @last AND (@aggregate IS NULL OR e.aggregate = @aggregate)
        ORDER BY e.position;
    ELSE IF @aggregate IS NULL
        INSERT INTO @page (position, size)
        SELECT TOP (@limit) e.position, DATALENGTH(e.data) FROM holdfast.event AS e
        WHERE e.ns = @ns AND e.topic = @topic AND e.position > @after AND e.position <= @last
        ORDER BY e.position;
    ELSE
        INSERT INTO @page (position, size)
        SELECT TOP (@limit) e.position, DATALENGTH(e.data) FROM holdfast.event AS e
        WHERE e.ns = @ns AND e.topic = @topic AND e.aggregate = @aggregate AND e.position > @after AND e.position <= @last
        ORDER BY e.position;
    SELECT e.position, e.at, e.version, e.id, e.topic, e.type, e.aggregate, e.data, e.headers
    FROM (
        SELECT p.position, SUM(p.size) OVER (ORDER BY p.position ROWS UNBOUNDED PRECEDING) - p.size AS before FROM @page AS p
    ) AS s
    INNER JOIN holdfast.event AS e ON e.ns = @ns AND e.position = s.position
    WHERE s.before < @most
    ORDER BY e.position;
END
GO

-- Removes events that are older than that, those of a topic in @passed (JSON: topic and upto) only up to its position; how many.
-- Of each topic the first ones go, up to one that must stay.
CREATE PROCEDURE holdfast.prune_events_v1 @ns int, @older_than bigint, @passed nvarchar(max), @limit int
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @last bigint;
    DECLARE @before bigint;
    DECLARE @topic nvarchar(200);
    DECLARE @upto bigint;
    DECLARE @removed bigint;
    CREATE TABLE #old (position bigint NOT NULL PRIMARY KEY);
    CREATE TABLE #gone (
        topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        version bigint NOT NULL,
        aggregate nvarchar(401) COLLATE Latin1_General_BIN2 NOT NULL
    );
    EXEC holdfast.sequence_all_v1 @ns, 2147483647, @last OUTPUT;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.event_enter_v1 @ns, @last OUTPUT;
        SET @before = holdfast.now_v1() - @older_than;
        SELECT @topic = MIN(e.topic) FROM holdfast.event AS e WHERE e.ns = @ns;
        WHILE @topic IS NOT NULL
        BEGIN
            SET @upto = @last;
            SELECT @upto = p.upto FROM OPENJSON(@passed) WITH (topic nvarchar(200) '$.topic', upto bigint '$.upto') AS p
            WHERE p.topic COLLATE Latin1_General_BIN2 = @topic;
            INSERT INTO #old (position)
            SELECT s.position FROM (
                SELECT
                    i.position,
                    MIN(CASE WHEN i.at < @before THEN 1 ELSE 0 END) OVER (ORDER BY i.position ROWS UNBOUNDED PRECEDING) AS is_old
                FROM (
                    SELECT TOP (@limit) e.position, e.at FROM holdfast.event AS e
                    WHERE e.ns = @ns AND e.topic = @topic AND e.position <= @upto ORDER BY e.position
                ) AS i
            ) AS s
            WHERE s.is_old = 1;
            SELECT @topic = MIN(e.topic) FROM holdfast.event AS e WHERE e.ns = @ns AND e.topic > @topic;
        END
        DELETE FROM #old WHERE position NOT IN (SELECT TOP (@limit) o.position FROM #old AS o ORDER BY o.position);
        INSERT INTO #gone (topic, aggregate, version)
        SELECT e.topic, e.aggregate, MAX(e.version) FROM #old AS o
        INNER JOIN holdfast.event AS e ON e.ns = @ns AND e.position = o.position
        WHERE e.aggregate IS NOT NULL
        GROUP BY e.topic, e.aggregate;
        DELETE FROM holdfast.event WHERE ns = @ns AND position IN (SELECT o.position FROM #old AS o);
        SET @removed = @@ROWCOUNT;
        DELETE FROM #gone WHERE EXISTS (
            SELECT 1 FROM holdfast.event AS e WHERE e.ns = @ns AND e.topic = #gone.topic AND e.aggregate = #gone.aggregate);
        INSERT INTO holdfast.event_floor (ns, topic, version)
        SELECT DISTINCT @ns, g.topic, 0 FROM #gone AS g
        WHERE NOT EXISTS (SELECT 1 FROM holdfast.event_floor AS f WHERE f.ns = @ns AND f.topic = g.topic);
        UPDATE f SET version = m.version
        FROM holdfast.event_floor AS f
        INNER JOIN (SELECT g.topic, MAX(g.version) AS version FROM #gone AS g GROUP BY g.topic) AS m ON m.topic = f.topic
        WHERE f.ns = @ns AND f.version < m.version;
        COMMIT TRANSACTION;
        SELECT @removed AS removed;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

INSERT INTO holdfast.step (version, name, min_client) VALUES (16, '0016_events', 1);
GO

COMMIT TRANSACTION;
GO

SET NOEXEC OFF;
GO


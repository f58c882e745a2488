-- min-client: 1
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

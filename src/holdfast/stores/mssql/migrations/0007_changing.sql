-- min-client: 1
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

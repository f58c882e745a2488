-- min-client: 1
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

-- min-client: 1
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

-- min-client: 1
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

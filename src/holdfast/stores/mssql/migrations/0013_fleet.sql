-- min-client: 1
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

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
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.queue SET paused = 1 WHERE ns = @ns AND name = @name;
            IF @@ROWCOUNT = 1
                RETURN;
            INSERT INTO holdfast.queue (ns, name, paused) VALUES (@ns, @name, 1);
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- min-client: 1
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

-- min-client: 1
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

-- min-client: 1
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

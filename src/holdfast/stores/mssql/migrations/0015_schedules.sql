-- min-client: 1
-- Recurring work. mark: of the last write. look_at: when to look at it. job: the one that it fired last; with waits it is to
-- be looked at as soon as that job is not live.
CREATE TABLE holdfast.schedule (
    ns int NOT NULL,
    name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL,
    version bigint NOT NULL,
    look_at bigint NULL,
    job char(36) COLLATE Latin1_General_BIN2 NULL,
    waits bit NOT NULL,
    mark nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    [definition] varbinary(max) NOT NULL,
    state varbinary(max) NOT NULL,
    CONSTRAINT holdfast_schedule_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_schedule_look ON holdfast.schedule (ns, look_at, name) WHERE look_at IS NOT NULL;
CREATE INDEX holdfast_schedule_waits ON holdfast.schedule (ns, name) INCLUDE (job, look_at) WHERE waits = 1;
GO

-- Writes one schedule of #write, and says there what became of it.
CREATE PROCEDURE holdfast.schedule_put_one_v1 @ns int, @turn int, @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    DECLARE @name nvarchar(410);
    DECLARE @version bigint;
    DECLARE @mark nvarchar(200);
    DECLARE @after nvarchar(200);
    DECLARE @look_at bigint;
    DECLARE @job char(36);
    DECLARE @waits bit;
    DECLARE @definition varbinary(max);
    DECLARE @state varbinary(max);
    DECLARE @rows int = 0;
    SELECT
        @name = w.name, @version = w.version, @mark = w.mark, @after = w.after_mark, @look_at = w.look_at, @job = w.job,
        @waits = w.waits, @definition = SUBSTRING(@bytes, w.definition_at, w.definition_size),
        @state = SUBSTRING(@bytes, w.state_at, w.state_size)
    FROM #write AS w WHERE w.turn = @turn;
    BEGIN TRY
        IF @version = 0 AND @after IS NULL
        BEGIN
            IF NOT EXISTS (SELECT 1 FROM holdfast.schedule AS s WHERE s.ns = @ns AND s.name = @name)
            BEGIN
                INSERT INTO holdfast.schedule (ns, name, version, mark, look_at, job, waits, [definition], state)
                VALUES (@ns, @name, 1, @mark, @look_at, @job, @waits, @definition, @state);
                SET @rows = 1;
            END
        END
        ELSE
        BEGIN
            UPDATE holdfast.schedule
            SET version = version + 1, mark = @mark, look_at = @look_at, job = @job, waits = @waits, [definition] = @definition,
                state = @state
            WHERE ns = @ns AND name = @name AND version = @version AND mark = COALESCE(@after, mark);
            SET @rows = @@ROWCOUNT;
        END
    END TRY
    BEGIN CATCH
        -- Another has put one there meanwhile, if it is one of these.
        IF ERROR_NUMBER() NOT IN (2601, 2627)
            THROW;
    END CATCH
    IF @rows = 1
        UPDATE #write SET is_written = 1, is_refused = 0 WHERE turn = @turn;
    ELSE IF EXISTS (
        -- The last that was written: a repeat.
        SELECT 1 FROM holdfast.schedule AS s
        WHERE s.ns = @ns AND s.name = @name AND s.version = @version + 1 AND s.mark = @mark)
        UPDATE #write SET is_refused = 0 WHERE turn = @turn;
END
GO

-- Writes schedules, one by one in the order of their names, so that two such calls do not wait for each other; then the jobs
-- and events of those that were written, which tell by `of` to which place they belong, counted from 1. Fills #refused with the
-- places of those that were refused.
CREATE PROCEDURE holdfast.schedule_put_v1
    @ns int, @now bigint, @writes nvarchar(max), @jobs nvarchar(max), @events nvarchar(max), @bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @turn int = 1;
    DECLARE @last int;
    DECLARE @without nvarchar(max);
    CREATE TABLE #write (
        turn int NOT NULL PRIMARY KEY,
        place int NOT NULL,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL,
        version bigint NOT NULL,
        mark nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        after_mark nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
        look_at bigint NULL,
        job char(36) COLLATE Latin1_General_BIN2 NULL,
        waits bit NOT NULL,
        definition_at int NOT NULL,
        definition_size int NOT NULL,
        state_at int NOT NULL,
        state_size int NOT NULL,
        is_written bit NOT NULL,
        is_refused bit NOT NULL
    );
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
    INSERT INTO #write (
        turn, place, name, version, mark, after_mark, look_at, job, waits, definition_at, definition_size, state_at, state_size,
        is_written, is_refused)
    SELECT
        ROW_NUMBER() OVER (ORDER BY w.name COLLATE Latin1_General_BIN2, w.place), w.place, w.name, w.version, w.mark,
        w.after_mark, w.look_at, w.job, w.waits, w.definition_at, w.definition_size, w.state_at, w.state_size, 0, 1
    FROM OPENJSON(@writes) WITH (
        place int '$.place', name nvarchar(410) '$.name', version bigint '$.version', mark nvarchar(200) '$.mark',
        after_mark nvarchar(200) '$.after', look_at bigint '$.look_at', job char(36) '$.job', waits bit '$.waits',
        definition_at int '$.definition_at', definition_size int '$.definition_size', state_at int '$.state_at',
        state_size int '$.state_size'
    ) AS w;
    SELECT @last = MAX(w.turn) FROM #write AS w;
    WHILE @turn <= @last
    BEGIN
        EXEC holdfast.schedule_put_one_v1 @ns, @turn, @bytes;
        SET @turn = @turn + 1;
    END
    IF @jobs IS NOT NULL
    BEGIN
        EXEC holdfast.open_new_v1 @now, @jobs, @bytes;
        DELETE FROM #new WHERE n NOT IN (
            SELECT j.n FROM OPENJSON(@jobs) WITH (n int '$.n', place int '$.of') AS j
            INNER JOIN #write AS w ON w.place = j.place AND w.is_written = 1);
        IF EXISTS (SELECT 1 FROM #new)
            EXEC holdfast.add_new_v1 @ns, @now;
        EXEC holdfast.free_keys_v1 @ns;
    END
    IF @events IS NOT NULL
    BEGIN
        SELECT @without = CONCAT('[', STRING_AGG(CAST(w.place AS nvarchar(max)), ','), ']') FROM #write AS w WHERE w.is_written = 0;
        EXEC holdfast.append_v1 @ns, @now, @events, @bytes, @without;
    END
    INSERT INTO #refused (place) SELECT w.place FROM #write AS w WHERE w.is_refused = 1;
END
GO

-- The same in a transaction of its own, and under a term if there is one; @lock is null if not. Gives the places of those that
-- were refused, each behind a comma; null if the lock is not held under the term. Waits for others a second, or next to nothing
-- if it is @hasty.
CREATE PROCEDURE holdfast.schedule_write_v1
    @ns int, @lock nvarchar(200), @owner nvarchar(300), @token bigint, @writes nvarchar(max), @jobs nvarchar(max),
    @events nvarchar(max), @bytes varbinary(max), @hasty bit
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @refused nvarchar(max);
    CREATE TABLE #refused (place int NOT NULL);
    BEGIN TRY
        BEGIN TRANSACTION;
        IF @lock IS NOT NULL
        BEGIN
            -- Until the commit nobody can take, free or renew the lock.
            UPDATE holdfast.lock SET turns = turns + 1 WHERE ns = @ns AND name = @lock AND owner = @owner AND token = @token;
            SET @now = holdfast.now_v1();
            IF NOT EXISTS (
                SELECT 1 FROM holdfast.lock AS k
                WHERE k.ns = @ns AND k.name = @lock AND k.owner = @owner AND k.token = @token AND k.until > @now)
            BEGIN
                COMMIT TRANSACTION;
                SELECT @refused AS refused;
                RETURN;
            END
        END
        SET @now = holdfast.now_v1();
        IF @hasty = 1
            SET LOCK_TIMEOUT 10;
        ELSE
            SET LOCK_TIMEOUT 1000;
        EXEC holdfast.schedule_put_v1 @ns, @now, @writes, @jobs, @events, @bytes;
        SELECT @refused = COALESCE(STRING_AGG(CONCAT(CAST(',' AS nvarchar(max)), r.place), ''), '') FROM #refused AS r;
        COMMIT TRANSACTION;
        SELECT @refused AS refused;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- One schedule as part of the caller's transaction, with its jobs and events; refused also if the lock is not held under the
-- term. The lock's row stays free, so that it can be renewed, or taken when it has ended: of two who write, the version
-- decides.
CREATE PROCEDURE holdfast.write_in_v1
    @ns int, @lock nvarchar(200), @owner nvarchar(300), @token bigint, @writes nvarchar(max), @jobs nvarchar(max),
    @events nvarchar(max), @bytes varbinary(max), @is_accepted bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint = holdfast.now_v1();
    CREATE TABLE #refused (place int NOT NULL);
    SET @is_accepted = 0;
    IF EXISTS (
        SELECT 1 FROM holdfast.lock AS k WITH (READCOMMITTEDLOCK)
        WHERE k.ns = @ns AND k.name = @lock AND k.owner = @owner AND k.token = @token AND k.until > @now)
    BEGIN
        EXEC holdfast.schedule_put_v1 @ns, @now, @writes, @jobs, @events, @bytes;
        IF NOT EXISTS (SELECT 1 FROM #refused)
            SET @is_accepted = 1;
    END
END
GO

-- Gives the schedules of #named in the order of their places, with what became of their jobs.
CREATE PROCEDURE holdfast.schedules_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #run (
        job char(36) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY,
        is_live bit NOT NULL,
        started bigint NULL
    );
    -- Live ones by a statement of their own: one that ends after it is found among those that have ended.
    INSERT INTO #run (job, is_live, started)
    SELECT l.id, 1, MAX(l.started) FROM #named AS n
    INNER JOIN holdfast.schedule AS s ON s.ns = @ns AND s.name = n.name
    INNER JOIN holdfast.live AS l ON l.ns = @ns AND l.id = s.job
    GROUP BY l.id;
    SELECT
        s.name, s.version, s.mark, s.[definition], s.state, s.look_at, s.job, s.waits, COALESCE(r.is_live, 0) AS live,
        CASE WHEN r.job IS NULL THEN d.started ELSE r.started END AS started,
        CASE WHEN r.job IS NULL THEN d.finished END AS finished
    FROM #named AS n
    INNER JOIN holdfast.schedule AS s ON s.ns = @ns AND s.name = n.name
    LEFT JOIN #run AS r ON r.job = s.job
    LEFT JOIN holdfast.done AS d ON d.ns = @ns AND d.id = s.job
    ORDER BY n.place;
END
GO

-- The store's now, and schedules by their names.
CREATE PROCEDURE holdfast.schedules_get_v1 @ns int, @names nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #named (
        place int NOT NULL PRIMARY KEY,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL
    );
    INSERT INTO #named (place, name) SELECT CAST(j.[key] AS int), j.value FROM OPENJSON(@names) AS j;
    SELECT holdfast.now_v1() AS now, CAST(NULL AS bigint) AS next_look;
    EXEC holdfast.schedules_v1 @ns;
END
GO

-- The same for up to so many behind a name.
CREATE PROCEDURE holdfast.schedules_after_v1 @ns int, @after nvarchar(410), @limit int
AS
BEGIN
    SET NOCOUNT ON;
    CREATE TABLE #named (
        place int IDENTITY(1, 1) NOT NULL PRIMARY KEY,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL
    );
    INSERT INTO #named (name)
    SELECT TOP (@limit) s.name FROM holdfast.schedule AS s WHERE s.ns = @ns AND s.name > @after ORDER BY s.name;
    SELECT holdfast.now_v1() AS now, CAST(NULL AS bigint) AS next_look;
    EXEC holdfast.schedules_v1 @ns;
END
GO

-- The same for those to be looked at now, and how long until the next.
CREATE PROCEDURE holdfast.schedules_due_v1 @ns int, @limit int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    DECLARE @next bigint;
    DECLARE @found int;
    CREATE TABLE #named (
        place int IDENTITY(1, 1) NOT NULL PRIMARY KEY,
        name nvarchar(410) COLLATE Latin1_General_BIN2 NOT NULL
    );
    INSERT INTO #named (name)
    SELECT TOP (@limit + 1) s.name FROM holdfast.schedule AS s
    WHERE s.ns = @ns AND s.look_at <= @now ORDER BY s.look_at, s.name;
    SELECT @found = COUNT(*) FROM #named;
    IF @found > @limit
    BEGIN
        DELETE FROM #named WHERE place = (SELECT MAX(n.place) FROM #named AS n);
        SET @next = 0;
    END
    ELSE
    BEGIN
        SELECT @next = MIN(s.look_at) - @now FROM holdfast.schedule AS s WHERE s.ns = @ns AND s.look_at > @now;
        INSERT INTO #named (name)
        SELECT TOP (@limit - @found) s.name FROM holdfast.schedule AS s
        WHERE s.ns = @ns AND s.waits = 1 AND (s.look_at IS NULL OR s.look_at > @now)
            AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = s.job)
        ORDER BY s.name;
    END
    SELECT @now AS now, @next AS next_look;
    EXEC holdfast.schedules_v1 @ns;
END
GO

-- min-client: 1
-- Events that have no position yet, in the order of n. Whoever appends one only adds a row and waits for nobody: that the
-- same id came twice is found when they are given positions. Aggregates end with a full stop that is no part of them.
CREATE TABLE holdfast.outbox (
    ns int NOT NULL,
    n bigint IDENTITY(1, 1) NOT NULL,
    at bigint NOT NULL,
    id nvarchar(100) COLLATE Latin1_General_BIN2 NOT NULL,
    topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    type nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate nvarchar(401) COLLATE Latin1_General_BIN2 NULL,
    data varbinary(max) NOT NULL,
    headers varbinary(max) NULL,
    CONSTRAINT holdfast_outbox_pkey PRIMARY KEY CLUSTERED (ns, n)
);
-- Else a transaction that appends thousands would have the whole table, and everybody would wait for it.
EXEC ('ALTER TABLE holdfast.outbox SET (LOCK_ESCALATION = DISABLE)');
GO

-- Events in their order. Rows are added, and removed once they are old; nothing changes them.
CREATE TABLE holdfast.event (
    ns int NOT NULL,
    position bigint NOT NULL,
    at bigint NOT NULL,
    version bigint NULL,
    id nvarchar(100) COLLATE Latin1_General_BIN2 NOT NULL,
    topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    type nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate nvarchar(401) COLLATE Latin1_General_BIN2 NULL,
    data varbinary(max) NOT NULL,
    headers varbinary(max) NULL,
    CONSTRAINT holdfast_event_pkey PRIMARY KEY CLUSTERED (ns, position),
    CONSTRAINT holdfast_event_id UNIQUE (ns, id)
);
CREATE INDEX holdfast_event_topic ON holdfast.event (ns, topic, position) INCLUDE (at);
CREATE INDEX holdfast_event_aggregate ON holdfast.event (ns, topic, aggregate, position) INCLUDE (version)
    WHERE aggregate IS NOT NULL;
GO

-- The last position that was given. Whoever gives positions or removes events counts itself in turns, and so has the row.
CREATE TABLE holdfast.event_head (
    ns int NOT NULL,
    last bigint NOT NULL,
    turns bigint NOT NULL,
    CONSTRAINT holdfast_event_head_pkey PRIMARY KEY CLUSTERED (ns)
);
GO

-- The highest version of those aggregates of a topic of which no event is kept. The last version of any other stands with
-- its last event: those of a topic are removed from the first on.
CREATE TABLE holdfast.event_floor (
    ns int NOT NULL,
    topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT holdfast_event_floor_pkey PRIMARY KEY CLUSTERED (ns, topic)
);
GO

-- Appends events of a JSON array in the order of n, but for those whose `of` is in the JSON array @without.
CREATE PROCEDURE holdfast.append_v1
    @ns int, @now bigint, @events nvarchar(max), @bytes varbinary(max), @without nvarchar(max) = NULL
AS
BEGIN
    SET NOCOUNT ON;
    IF @now IS NULL
        SET @now = holdfast.now_v1();
    INSERT INTO holdfast.outbox (ns, at, id, topic, type, aggregate, data, headers)
    SELECT
        @ns, @now, e.id, e.topic, e.type, e.aggregate, SUBSTRING(@bytes, e.data_at, e.data_size),
        SUBSTRING(@bytes, e.headers_at, e.headers_size)
    FROM OPENJSON(@events) WITH (
        n int '$.n', place int '$.of', id nvarchar(100) '$.id', topic nvarchar(200) '$.topic', type nvarchar(200) '$.type',
        aggregate nvarchar(401) '$.aggregate', data_at int '$.data_at', data_size int '$.data_size',
        headers_at int '$.headers_at', headers_size int '$.headers_size'
    ) AS e
    WHERE NOT EXISTS (SELECT 1 FROM OPENJSON(@without) WITH (place int '$') AS x WHERE x.place = e.place)
    ORDER BY e.n;
END
GO

-- Appends events in a transaction of its own, with jobs if there are any; their answers are those of add.
CREATE PROCEDURE holdfast.append_jobs_v1
    @ns int, @events nvarchar(max), @events_bytes varbinary(max), @jobs nvarchar(max), @jobs_bytes varbinary(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.append_v1 @ns, NULL, @events, @events_bytes;
        IF @jobs IS NOT NULL
            EXEC holdfast.add_v1 @ns, @jobs, @jobs_bytes;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Takes the row of the head, so that nobody else gives positions or removes events until the commit.
CREATE PROCEDURE holdfast.event_enter_v1 @ns int, @last bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.event_head SET turns = turns + 1 WHERE ns = @ns;
            IF @@ROWCOUNT = 0
                INSERT INTO holdfast.event_head (ns, last, turns) VALUES (@ns, 0, 0);
            SELECT @last = h.last FROM holdfast.event_head AS h WHERE h.ns = @ns;
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- Gives positions to some of what is in the outbox and committed; @more says whether there may be more of it. One whose id is
-- stored is dropped. What others have not committed is passed over, and gets a later place.
CREATE PROCEDURE holdfast.sequence_v1 @ns int, @limit int, @more bit OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @most bigint = 16000000;
    DECLARE @last bigint;
    DECLARE @full bigint;
    DECLARE @placed bigint;
    CREATE TABLE #taken (
        n bigint NOT NULL PRIMARY KEY,
        size bigint NOT NULL,
        copy bigint NOT NULL
    );
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.event_enter_v1 @ns, @last OUTPUT;
        INSERT INTO #taken (n, size, copy)
        SELECT f.n, f.size, ROW_NUMBER() OVER (PARTITION BY f.id ORDER BY f.n)
        FROM (
            SELECT TOP (@limit) o.n, o.id, DATALENGTH(o.data) AS size
            FROM holdfast.outbox AS o WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
            WHERE o.ns = @ns ORDER BY o.n
        ) AS f;
        SET @more = CASE WHEN @@ROWCOUNT >= @limit THEN 1 ELSE 0 END;
        SELECT @full = MIN(s.n)
        FROM (SELECT t.n, SUM(t.size) OVER (ORDER BY t.n ROWS UNBOUNDED PRECEDING) AS size FROM #taken AS t) AS s
        WHERE s.size >= @most;
        IF @full IS NOT NULL
        BEGIN
            DELETE FROM #taken WHERE n > @full;
            SET @more = 1;
        END
        INSERT INTO holdfast.event (ns, position, at, version, id, topic, type, aggregate, data, headers)
        SELECT
            @ns, @last + ROW_NUMBER() OVER (ORDER BY o.n), o.at,
            CASE WHEN o.aggregate IS NOT NULL THEN ROW_NUMBER() OVER (PARTITION BY o.topic, o.aggregate ORDER BY o.n) + COALESCE(
                (SELECT TOP (1) e.version FROM holdfast.event AS e
                WHERE e.ns = @ns AND e.topic = o.topic AND e.aggregate = o.aggregate ORDER BY e.position DESC),
                (SELECT f.version FROM holdfast.event_floor AS f WHERE f.ns = @ns AND f.topic = o.topic), 0) END,
            o.id, o.topic, o.type, o.aggregate, o.data, o.headers
        FROM #taken AS t
        INNER JOIN holdfast.outbox AS o WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) ON o.ns = @ns AND o.n = t.n
        WHERE t.copy = 1 AND NOT EXISTS (SELECT 1 FROM holdfast.event AS e WHERE e.ns = @ns AND e.id = o.id);
        SET @placed = @@ROWCOUNT;
        UPDATE holdfast.event_head SET last = @last + @placed WHERE ns = @ns;
        DELETE FROM holdfast.outbox WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK)
        WHERE ns = @ns AND n IN (SELECT t.n FROM #taken AS t);
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Gives positions to what is committed by now, in up to so many rounds; @last is the last one.
CREATE PROCEDURE holdfast.sequence_all_v1 @ns int, @rounds int, @last bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @more bit = 1;
    IF NOT EXISTS (SELECT 1 FROM holdfast.outbox AS o WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE o.ns = @ns)
        SET @more = 0;
    WHILE @more = 1 AND @rounds > 0
    BEGIN
        EXEC holdfast.sequence_v1 @ns, 1000, @more OUTPUT;
        SET @rounds = @rounds - 1;
    END
    SET @last = 0;
    SELECT @last = h.last FROM holdfast.event_head AS h WHERE h.ns = @ns;
END
GO

-- The last position of all that is committed by now.
CREATE PROCEDURE holdfast.last_event_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @last bigint;
    EXEC holdfast.sequence_all_v1 @ns, 2147483647, @last OUTPUT;
    SELECT @last AS last;
END
GO

-- The last position that is looked at; then up to so many events behind one, and none behind so many bytes of data: all, those
-- of a topic, or of its aggregate.
CREATE PROCEDURE holdfast.read_events_v1
    @ns int, @after bigint, @limit int, @topic nvarchar(200), @aggregate nvarchar(401), @most bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @last bigint;
    DECLARE @page TABLE (position bigint NOT NULL PRIMARY KEY, size bigint NOT NULL);
    EXEC holdfast.sequence_all_v1 @ns, 10, @last OUTPUT;
    SELECT @last AS last;
    -- Up to there only: who gives positions beyond it is not waited for.
    IF @topic IS NULL
        INSERT INTO @page (position, size)
        SELECT TOP (@limit) e.position, DATALENGTH(e.data) FROM holdfast.event AS e
        WHERE e.ns = @ns AND e.position > @after AND e.position <= @last AND (@aggregate IS NULL OR e.aggregate = @aggregate)
        ORDER BY e.position;
    ELSE IF @aggregate IS NULL
        INSERT INTO @page (position, size)
        SELECT TOP (@limit) e.position, DATALENGTH(e.data) FROM holdfast.event AS e
        WHERE e.ns = @ns AND e.topic = @topic AND e.position > @after AND e.position <= @last
        ORDER BY e.position;
    ELSE
        INSERT INTO @page (position, size)
        SELECT TOP (@limit) e.position, DATALENGTH(e.data) FROM holdfast.event AS e
        WHERE e.ns = @ns AND e.topic = @topic AND e.aggregate = @aggregate AND e.position > @after AND e.position <= @last
        ORDER BY e.position;
    SELECT e.position, e.at, e.version, e.id, e.topic, e.type, e.aggregate, e.data, e.headers
    FROM (
        SELECT p.position, SUM(p.size) OVER (ORDER BY p.position ROWS UNBOUNDED PRECEDING) - p.size AS before FROM @page AS p
    ) AS s
    INNER JOIN holdfast.event AS e ON e.ns = @ns AND e.position = s.position
    WHERE s.before < @most
    ORDER BY e.position;
END
GO

-- Removes events that are older than that, those of a topic in @passed (JSON: topic and upto) only up to its position; how many.
-- Of each topic the first ones go, up to one that must stay.
CREATE PROCEDURE holdfast.prune_events_v1 @ns int, @older_than bigint, @passed nvarchar(max), @limit int
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @last bigint;
    DECLARE @before bigint;
    DECLARE @topic nvarchar(200);
    DECLARE @upto bigint;
    DECLARE @removed bigint;
    CREATE TABLE #old (position bigint NOT NULL PRIMARY KEY);
    CREATE TABLE #gone (
        topic nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        version bigint NOT NULL,
        aggregate nvarchar(401) COLLATE Latin1_General_BIN2 NOT NULL
    );
    EXEC holdfast.sequence_all_v1 @ns, 2147483647, @last OUTPUT;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.event_enter_v1 @ns, @last OUTPUT;
        SET @before = holdfast.now_v1() - @older_than;
        SELECT @topic = MIN(e.topic) FROM holdfast.event AS e WHERE e.ns = @ns;
        WHILE @topic IS NOT NULL
        BEGIN
            SET @upto = @last;
            SELECT @upto = p.upto FROM OPENJSON(@passed) WITH (topic nvarchar(200) '$.topic', upto bigint '$.upto') AS p
            WHERE p.topic COLLATE Latin1_General_BIN2 = @topic;
            INSERT INTO #old (position)
            SELECT s.position FROM (
                SELECT
                    i.position,
                    MIN(CASE WHEN i.at < @before THEN 1 ELSE 0 END) OVER (ORDER BY i.position ROWS UNBOUNDED PRECEDING) AS is_old
                FROM (
                    SELECT TOP (@limit) e.position, e.at FROM holdfast.event AS e
                    WHERE e.ns = @ns AND e.topic = @topic AND e.position <= @upto ORDER BY e.position
                ) AS i
            ) AS s
            WHERE s.is_old = 1;
            SELECT @topic = MIN(e.topic) FROM holdfast.event AS e WHERE e.ns = @ns AND e.topic > @topic;
        END
        DELETE FROM #old WHERE position NOT IN (SELECT TOP (@limit) o.position FROM #old AS o ORDER BY o.position);
        INSERT INTO #gone (topic, aggregate, version)
        SELECT e.topic, e.aggregate, MAX(e.version) FROM #old AS o
        INNER JOIN holdfast.event AS e ON e.ns = @ns AND e.position = o.position
        WHERE e.aggregate IS NOT NULL
        GROUP BY e.topic, e.aggregate;
        DELETE FROM holdfast.event WHERE ns = @ns AND position IN (SELECT o.position FROM #old AS o);
        SET @removed = @@ROWCOUNT;
        DELETE FROM #gone WHERE EXISTS (
            SELECT 1 FROM holdfast.event AS e WHERE e.ns = @ns AND e.topic = #gone.topic AND e.aggregate = #gone.aggregate);
        INSERT INTO holdfast.event_floor (ns, topic, version)
        SELECT DISTINCT @ns, g.topic, 0 FROM #gone AS g
        WHERE NOT EXISTS (SELECT 1 FROM holdfast.event_floor AS f WHERE f.ns = @ns AND f.topic = g.topic);
        UPDATE f SET version = m.version
        FROM holdfast.event_floor AS f
        INNER JOIN (SELECT g.topic, MAX(g.version) AS version FROM #gone AS g GROUP BY g.topic) AS m ON m.topic = f.topic
        WHERE f.ns = @ns AND f.version < m.version;
        COMMIT TRANSACTION;
        SELECT @removed AS removed;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

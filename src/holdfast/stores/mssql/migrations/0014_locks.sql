-- min-client: 1
-- Named locks: who holds each, under which token, until when, and the mark of where. A row that has ended says nothing, and is
-- swept away. Calls about one lock come one after the other: each begins by counting itself in turns, and so has the row.
CREATE TABLE holdfast.lock (
    ns int NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    until bigint NOT NULL,
    token bigint NOT NULL,
    turns bigint NOT NULL,
    owner nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL,
    mark varchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_lock_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_lock_until ON holdfast.lock (until);
GO

-- Who stands in line for a lock, in the order of arrival, until when, and the mark of where it waits.
CREATE TABLE holdfast.lock_line (
    arrival bigint IDENTITY(1, 1) NOT NULL,
    ns int NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    owner nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL,
    mark varchar(64) COLLATE Latin1_General_BIN2 NOT NULL,
    until bigint NOT NULL,
    CONSTRAINT holdfast_lock_line_pkey PRIMARY KEY CLUSTERED (ns, name, arrival),
    CONSTRAINT holdfast_lock_line_owner UNIQUE (ns, name, owner)
);
CREATE INDEX holdfast_lock_line_until ON holdfast.lock_line (until);
GO

-- The last token of any lock of the namespace.
CREATE TABLE holdfast.lock_token (
    ns int NOT NULL,
    token bigint NOT NULL,
    CONSTRAINT holdfast_lock_token_pkey PRIMARY KEY CLUSTERED (ns)
);
GO

-- Waits until no other call about the lock is under way. Its row is there then, even if nobody holds it.
CREATE PROCEDURE holdfast.lock_enter_v1 @ns int, @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.lock SET turns = turns + 1 WHERE ns = @ns AND name = @name;
            IF @@ROWCOUNT = 1
                RETURN;
            INSERT INTO holdfast.lock (ns, name, until, token, turns, owner, mark) VALUES (@ns, @name, 0, 0, 0, '', '');
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- The next token of the namespace: above the last one, and no less than the clock.
CREATE PROCEDURE holdfast.lock_token_v1 @ns int, @now bigint, @token bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    WHILE 1 = 1
    BEGIN
        BEGIN TRY
            UPDATE holdfast.lock_token SET token = CASE WHEN token >= @now THEN token + 1 ELSE @now END WHERE ns = @ns;
            IF @@ROWCOUNT = 0
                INSERT INTO holdfast.lock_token (ns, token) VALUES (@ns, @now);
            SELECT @token = t.token FROM holdfast.lock_token AS t WHERE t.ns = @ns;
            RETURN;
        END TRY
        BEGIN CATCH
            IF ERROR_NUMBER() NOT IN (2601, 2627)
                THROW;
        END CATCH
    END
END
GO

-- Gives the token, or the time until it could be granted if nobody did anything; no more than @deaf if somebody before the
-- owner is elsewhere, from where no wake-up comes.
CREATE PROCEDURE holdfast.lock_acquire_v1
    @ns int, @name nvarchar(200), @owner nvarchar(300), @ttl bigint, @place bigint, @mark varchar(64), @deaf bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @token bigint;
    DECLARE @held nvarchar(300);
    DECLARE @until bigint;
    DECLARE @arrival bigint;
    DECLARE @before bigint;
    DECLARE @elsewhere int = 0;
    DECLARE @after bigint = 0;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.lock_enter_v1 @ns, @name;
        -- Read when the row is had: a renewal that was under way may have begun before the end of the lease.
        SET @now = holdfast.now_v1();
        SELECT @held = k.owner, @token = k.token, @until = k.until, @elsewhere = CASE WHEN k.mark = @mark THEN 0 ELSE 1 END
        FROM holdfast.lock AS k WHERE k.ns = @ns AND k.name = @name AND k.until > @now;
        IF @held = @owner COLLATE Latin1_General_BIN2
        BEGIN
            UPDATE holdfast.lock SET until = CASE WHEN until > @now + @ttl THEN until ELSE @now + @ttl END
            WHERE ns = @ns AND name = @name;
            COMMIT TRANSACTION;
            SELECT @token AS token, @after AS after;
            RETURN;
        END
        SET @token = NULL;
        DELETE FROM holdfast.lock_line WHERE ns = @ns AND name = @name AND until <= @now;
        SELECT @arrival = l.arrival FROM holdfast.lock_line AS l WHERE l.ns = @ns AND l.name = @name AND l.owner = @owner;
        SELECT @before = MAX(l.until), @elsewhere = @elsewhere + COUNT(CASE WHEN l.mark <> @mark THEN 1 END)
        FROM holdfast.lock_line AS l
        WHERE l.ns = @ns AND l.name = @name AND (@arrival IS NULL OR l.arrival < @arrival);
        IF @held IS NULL AND @before IS NULL
        BEGIN
            DELETE FROM holdfast.lock_line WHERE ns = @ns AND name = @name AND owner = @owner;
            EXEC holdfast.lock_token_v1 @ns, @now, @token OUTPUT;
            UPDATE holdfast.lock SET owner = @owner, token = @token, until = @now + @ttl, mark = @mark
            WHERE ns = @ns AND name = @name;
        END
        ELSE
        BEGIN
            IF @arrival IS NOT NULL AND @place > 0
                UPDATE holdfast.lock_line SET until = @now + @place WHERE ns = @ns AND name = @name AND owner = @owner;
            ELSE IF @place > 0
                INSERT INTO holdfast.lock_line (ns, name, owner, mark, until) VALUES (@ns, @name, @owner, @mark, @now + @place);
            SET @after = CASE WHEN @before IS NULL OR @until > @before THEN @until ELSE @before END - @now;
            IF @elsewhere > 0 AND @after > @deaf
                SET @after = @deaf;
        END
        COMMIT TRANSACTION;
        -- What ended long ago and nobody asks for, each by itself and with nothing held: nobody waits for this.
        IF @token IS NOT NULL
        BEGIN
            DELETE TOP (2) FROM holdfast.lock WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE until <= @now - 60000000;
            DELETE TOP (2) FROM holdfast.lock_line WITH (READPAST, ROWLOCK, READCOMMITTEDLOCK) WHERE until <= @now - 60000000;
        END
        SELECT @token AS token, @after AS after;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Prolongs what is held, and gives the places of that. In the order of their names, so that two such calls cannot wait for
-- each other.
CREATE PROCEDURE holdfast.lock_renew_v1 @ns int, @holds nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @turn int = 1;
    DECLARE @name nvarchar(200);
    DECLARE @owner nvarchar(300);
    DECLARE @token bigint;
    DECLARE @ttl bigint;
    CREATE TABLE #hold (
        turn int NOT NULL PRIMARY KEY,
        place int NOT NULL,
        name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
        owner nvarchar(300) COLLATE Latin1_General_BIN2 NOT NULL,
        token bigint NOT NULL,
        ttl bigint NOT NULL,
        is_held bit NOT NULL
    );
    INSERT INTO #hold (turn, place, name, owner, token, ttl, is_held)
    SELECT
        ROW_NUMBER() OVER (ORDER BY h.name COLLATE Latin1_General_BIN2, h.place), h.place, h.name, h.owner, h.token, h.ttl, 0
    FROM OPENJSON(@holds) WITH (
        place int '$.place', name nvarchar(200) '$.name', owner nvarchar(300) '$.owner', token bigint '$.token', ttl bigint '$.ttl'
    ) AS h;
    BEGIN TRY
        BEGIN TRANSACTION;
        WHILE 1 = 1
        BEGIN
            SET @name = NULL;
            SELECT @name = h.name, @owner = h.owner, @token = h.token, @ttl = h.ttl FROM #hold AS h WHERE h.turn = @turn;
            IF @name IS NULL
                BREAK;
            UPDATE holdfast.lock SET turns = turns + 1 WHERE ns = @ns AND name = @name AND owner = @owner AND token = @token;
            IF @@ROWCOUNT = 1
            BEGIN
                SET @now = holdfast.now_v1();
                UPDATE holdfast.lock SET until = CASE WHEN until > @now + @ttl THEN until ELSE @now + @ttl END
                WHERE ns = @ns AND name = @name AND owner = @owner AND token = @token AND until > @now;
                IF @@ROWCOUNT = 1
                    UPDATE #hold SET is_held = 1 WHERE turn = @turn;
            END
            SET @turn = @turn + 1;
        END
        COMMIT TRANSACTION;
        SELECT h.place FROM #hold AS h WHERE h.is_held = 1;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Frees the lock, without a token also the owner's place. Gives the owner whose turn it is thereby.
CREATE PROCEDURE holdfast.lock_release_v1 @ns int, @name nvarchar(200), @owner nvarchar(300), @token bigint
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @gone int = 0;
    DECLARE @next nvarchar(300);
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.lock_enter_v1 @ns, @name;
        SET @now = holdfast.now_v1();
        IF @token IS NULL
        BEGIN
            DELETE FROM holdfast.lock_line WHERE ns = @ns AND name = @name AND owner = @owner;
            SET @gone = @@ROWCOUNT;
        END
        DELETE FROM holdfast.lock
        WHERE ns = @ns AND name = @name AND owner = @owner AND (@token IS NULL OR token = @token);
        SET @gone = @gone + @@ROWCOUNT;
        DELETE FROM holdfast.lock WHERE ns = @ns AND name = @name AND until <= @now;
        IF @gone > 0 AND NOT EXISTS (SELECT 1 FROM holdfast.lock AS k WHERE k.ns = @ns AND k.name = @name)
            SELECT TOP (1) @next = l.owner FROM holdfast.lock_line AS l
            WHERE l.ns = @ns AND l.name = @name AND l.until > @now ORDER BY l.arrival;
        COMMIT TRANSACTION;
        SELECT @next AS owner;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

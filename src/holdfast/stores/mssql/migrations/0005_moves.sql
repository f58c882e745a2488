-- min-client: 1
-- Notes that the jobs of #gone ended, where something may have waited for that.
CREATE PROCEDURE holdfast.note_gone_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        INSERT INTO holdfast.note (ns, job, is_new, queue, task, limit_key, sequence)
        SELECT @ns, g.id, 0, g.queue, g.task, g.limit_key, g.sequence FROM #gone AS g;
END
GO

-- Those successes of #move that have nothing to tell but their results, all at once.
CREATE PROCEDURE holdfast.complete_v1 @ns int, @worker nvarchar(200), @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    SELECT TOP (0) * INTO #gone FROM holdfast.job;
    DELETE FROM j
    OUTPUT deleted.* INTO #gone
    FROM holdfast.job AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    INNER JOIN #move AS m ON m.job = j.id AND m.token = j.token
    WHERE j.ns = @ns AND m.is_plain = 1 AND m.verdict IS NULL AND j.worker = @worker;
    INSERT INTO holdfast.done (
        ns, id, task, queue, payload, state, priority, due, rank, created, finished, run, failures, lost, suspect, version, token,
        lease, timeout, retry, headers, job_key, tags, started, cancel_asked, progress, progress_note, result, limit_key,
        fair_key, sequence, place, halts, after_any, expires, unmet)
    SELECT
        g.ns, g.id, g.task, g.queue, g.payload, 3, g.priority, g.due, g.rank, g.created, @now, g.run, 0, 0, 0,
        g.version + COALESCE(l.changes, 0) + 1, g.token, g.lease, g.timeout, g.retry, g.headers, g.job_key, g.tags,
        COALESCE(l.started, @now - m.elapsed), CASE WHEN g.cancel_asked = 1 OR l.cancel_asked = 1 THEN 1 ELSE 0 END,
        CASE WHEN l.job IS NULL THEN g.progress ELSE l.progress END,
        CASE WHEN l.job IS NULL THEN g.progress_note ELSE l.progress_note END, m.result, g.limit_key, g.fair_key, g.sequence,
        g.place, g.halts, g.after_any, g.expires, g.unmet
    FROM #gone AS g
    INNER JOIN #move AS m ON m.job = g.id AND m.token = g.token AND m.is_plain = 1
    LEFT JOIN holdfast.lease AS l ON l.ns = g.ns AND l.job = g.id AND l.token = g.token;
    INSERT INTO holdfast.attempt (ns, job, token, run, worker, started, finished, outcome)
    SELECT d.ns, d.id, d.token, d.run, @worker, d.started, @now, 'success'
    FROM #gone AS g
    INNER JOIN holdfast.done AS d ON d.ns = g.ns AND d.id = g.id;
    INSERT INTO holdfast.tally (ns, queue, state, jobs) SELECT g.ns, g.queue, 3, COUNT(*) FROM #gone AS g GROUP BY g.ns, g.queue;
    IF EXISTS (SELECT 1 FROM #gone AS g WHERE g.job_key IS NOT NULL)
        DELETE FROM holdfast.job_key WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE ns = @ns AND (until IS NULL OR until <= @now) AND name IN (SELECT g.job_key FROM #gone AS g)
            AND job IN (SELECT g.id FROM #gone AS g);
    UPDATE #move SET verdict = 'a'
    WHERE is_plain = 1 AND EXISTS (SELECT 1 FROM #gone AS g WHERE g.id = #move.job AND g.token = #move.token);
    EXEC holdfast.note_gone_v1 @ns;
END
GO

-- Fills #text with texts, counted from 0: each has the character behind it that comes first of all.
CREATE PROCEDURE holdfast.open_texts_v1 @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @mark nvarchar(1) = SUBSTRING(@texts, 1, 1);
    DECLARE @n int = 0;
    DECLARE @at int = 2;
    DECLARE @end int;
    WHILE 1 = 1
    BEGIN
        SET @end = CHARINDEX(@mark COLLATE Latin1_General_BIN2, @texts COLLATE Latin1_General_BIN2, @at);
        IF @end IS NULL OR @end = 0
            RETURN;
        INSERT INTO #text (n, value) VALUES (@n, SUBSTRING(@texts COLLATE Latin1_General_BIN2, @at, @end - @at));
        SET @n = @n + 1;
        SET @at = @end + 1;
    END
END
GO

-- Keeps the keys of the jobs that come with the moves of #move, all before any is used.
CREATE PROCEDURE holdfast.keep_children_keys_v1 @ns int, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int;
    DECLARE @children nvarchar(max);
    SELECT @n = MIN(m.n) FROM #move AS m WHERE m.children IS NOT NULL;
    WHILE @n IS NOT NULL
    BEGIN
        SELECT @children = m.children FROM #move AS m WHERE m.n = @n;
        INSERT INTO #key (name)
        SELECT DISTINCT c.name COLLATE Latin1_General_BIN2 FROM OPENJSON(@children) WITH (name nvarchar(200) '$.key') AS c
        WHERE c.name IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM #key AS k WHERE k.name = c.name COLLATE Latin1_General_BIN2);
        SELECT @n = MIN(m.n) FROM #move AS m WHERE m.children IS NOT NULL AND m.n > @n;
    END
    EXEC holdfast.keep_keys_v1 @ns, @now;
END
GO

-- Moves in order; puts a letter for each into #verdicts, "a" if it was accepted, "r" if it was refused.
CREATE PROCEDURE holdfast.moves_v1
    @ns int, @worker nvarchar(200), @now bigint, @moves nvarchar(max), @bytes varbinary(max), @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int;
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
    CREATE TABLE #move (
        n int NOT NULL PRIMARY KEY,
        job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
        token bigint NOT NULL,
        sources varchar(10) NOT NULL,
        to_state tinyint NOT NULL,
        outcome varchar(20) NULL,
        elapsed bigint NULL,
        delay bigint NULL,
        failures int NOT NULL,
        lost int NOT NULL,
        suspect bit NOT NULL,
        reason nvarchar(max) NULL,
        error nvarchar(max) NULL,
        result varbinary(max) NULL,
        if_expired bit NOT NULL,
        is_had bit NOT NULL,
        is_plain bit NOT NULL,
        joined bit NOT NULL,
        children nvarchar(max) NULL,
        events nvarchar(max) NULL,
        verdict char(1) NULL
    );
    CREATE TABLE #text (n int NOT NULL PRIMARY KEY, value nvarchar(max) NOT NULL);
    CREATE TABLE #key (name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY);
    IF @texts IS NOT NULL
        EXEC holdfast.open_texts_v1 @texts;
    INSERT INTO #move (
        n, job, token, sources, to_state, outcome, elapsed, delay, failures, lost, suspect, reason, error, result, if_expired,
        is_had, is_plain, joined, children, events)
    SELECT
        j.n, j.job, j.token, j.sources, j.to_state, j.outcome, j.elapsed, j.delay, j.failures, j.lost, j.suspect, r.value,
        e.value, SUBSTRING(@bytes, j.result_at, j.result_size), j.if_expired, 0, j.is_plain, j.joined, j.children, j.events
    FROM OPENJSON(@moves) WITH (
        n int '$.n', job char(36) '$.job', token bigint '$.token', sources varchar(10) '$.sources', to_state tinyint '$.to',
        outcome varchar(20) '$.outcome', elapsed bigint '$.elapsed', delay bigint '$.delay', failures int '$.failures',
        lost int '$.lost', suspect bit '$.suspect', reason int '$.reason', error int '$.error',
        result_at int '$.result_at', result_size int '$.result_size', if_expired bit '$.if_expired', is_plain bit '$.is_plain',
        joined bit '$.joined',
        children nvarchar(max) '$.children' AS JSON, events nvarchar(max) '$.events' AS JSON
    ) AS j
    LEFT JOIN #text AS r ON r.n = j.reason
    LEFT JOIN #text AS e ON e.n = j.error;
    EXEC holdfast.lock_moves_v1 @ns;
    EXEC holdfast.keep_children_keys_v1 @ns, @now;
    IF EXISTS (SELECT 1 FROM #move AS m WHERE m.is_plain = 1)
        EXEC holdfast.complete_v1 @ns, @worker, @now;
    SELECT @n = MIN(m.n) FROM #move AS m WHERE m.verdict IS NULL;
    WHILE @n IS NOT NULL
    BEGIN
        EXEC holdfast.try_move_v1 @ns, @worker, @now, @n, @bytes;
        SELECT @n = MIN(m.n) FROM #move AS m WHERE m.verdict IS NULL;
    END
    EXEC holdfast.free_keys_v1 @ns;
    INSERT INTO #verdicts (letters)
    SELECT STRING_AGG(CAST(m.verdict AS varchar(max)), '') WITHIN GROUP (ORDER BY m.n) FROM #move AS m;
END
GO

-- One move as part of the caller's transaction; it does not wait for anybody but whoever has the job.
CREATE PROCEDURE holdfast.move_in_v1
    @ns int, @worker nvarchar(200), @moves nvarchar(max), @bytes varbinary(max), @texts nvarchar(max)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    CREATE TABLE #verdicts (letters varchar(max) NULL);
    BEGIN TRY
        EXEC holdfast.moves_v1 @ns, @worker, @now, @moves, @bytes, @texts;
        SELECT v.letters FROM #verdicts AS v;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

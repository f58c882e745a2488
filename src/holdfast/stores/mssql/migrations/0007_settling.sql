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

-- Frees the job whose turn it is in a sequence. Passes over what somebody has: whoever is freed too early meets the claim.
CREATE PROCEDURE holdfast.call_v1 @ns int, @now bigint, @sequence nvarchar(200), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @next char(36);
    SELECT @next = h.job FROM holdfast.halt AS h WHERE h.ns = @ns AND h.sequence = @sequence;
    IF @next IS NULL
        SELECT TOP (1) @next = j.id
        FROM holdfast.job AS j WITH (READPAST, READCOMMITTEDLOCK)
        WHERE j.ns = @ns AND j.sequence = @sequence AND j.sequence IS NOT NULL
        ORDER BY j.place, j.id;
    UPDATE holdfast.job SET gate = NULL, ready = CASE WHEN due <= @now THEN 1 ELSE 0 END
    WHERE ns = @ns AND id = @next AND gate = N'sequence:' + @sequence;
    SET @freed = @freed + @@ROWCOUNT;
END
GO

-- Sets or ends the halt of a sequence by what became of one of its jobs.
CREATE PROCEDURE holdfast.settle_halt_v1 @ns int, @job char(36), @sequence nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (
        SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job AND d.halts = 1 AND d.state IN (4, 6))
    BEGIN
        UPDATE holdfast.halt SET job = @job WHERE ns = @ns AND sequence = @sequence;
        IF @@ROWCOUNT = 0
            INSERT INTO holdfast.halt (ns, sequence, job) VALUES (@ns, @sequence, @job);
    END
    ELSE IF NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job)
        DELETE FROM holdfast.halt WHERE ns = @ns AND sequence = @sequence AND job = @job;
END
GO

-- Frees a job that waits for others no longer.
CREATE PROCEDURE holdfast.let_go_v1 @ns int, @now bigint, @waiter char(36), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @unmet int;
    DECLARE @is_pending bit = CASE WHEN EXISTS (
        SELECT 1 FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @waiter AND l.state IS NULL) THEN 1 ELSE 0 END;
    SELECT @unmet = NULLIF(COUNT(*), 0) FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @waiter AND l.state <> 3;
    UPDATE holdfast.job SET
        unmet = @unmet,
        ready = CASE WHEN @is_pending = 1 OR held = 1 THEN NULL WHEN due <= @now THEN 1 ELSE 0 END,
        gate = CASE WHEN @is_pending = 1 OR held = 1 THEN gate END
    WHERE ns = @ns AND id = @waiter AND gate = N'after';
    IF @@ROWCOUNT = 0
        UPDATE holdfast.done SET unmet = @unmet WHERE ns = @ns AND id = @waiter AND COALESCE(unmet, 0) <> COALESCE(@unmet, 0);
    ELSE IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @waiter AND j.gate IS NULL)
        SET @freed = @freed + 1;
END
GO

-- Looks at the jobs that a new job waits for, or one that was released; and whether the job still waits that it was put before.
CREATE PROCEDURE holdfast.settle_new_v1 @ns int, @now bigint, @job char(36), @before char(36), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @after_any bit = 0;
    IF @before IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @before AND j.gate = N'after')
        DELETE FROM holdfast.link WHERE ns = @ns AND waiter = @before AND job = @job;
    SELECT @after_any = COALESCE(s.after_any, 0) FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job;
    UPDATE l SET state = COALESCE((SELECT d.state FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = l.job), 7)
    FROM holdfast.link AS l
    WHERE l.ns = @ns AND l.waiter = @job AND l.state IS NULL
        AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = l.job)
        AND NOT EXISTS (
            SELECT 1 FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = l.job AND d.state = 6 AND @after_any = 0);
    EXEC holdfast.let_go_v1 @ns, @now, @job, @freed OUTPUT;
END
GO

-- Tells those who wait for a job how that ended. Links that somebody is just adding are looked at with their own notes.
CREATE PROCEDURE holdfast.settle_links_v1 @ns int, @now bigint, @job char(36), @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @waiter char(36) = '';
    DECLARE @state tinyint;
    IF EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job)
        RETURN;
    SELECT @state = d.state FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job;
    WHILE 1 = 1
    BEGIN
        SELECT @waiter = MIN(l.waiter)
        FROM holdfast.link AS l WITH (READPAST, READCOMMITTEDLOCK)
        WHERE l.ns = @ns AND l.job = @job AND l.state IS NULL AND l.waiter > @waiter;
        IF @waiter IS NULL
            BREAK;
        IF @state = 6 AND NOT EXISTS (
            SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @waiter AND s.after_any = 1)
            CONTINUE;
        UPDATE holdfast.link SET state = COALESCE(@state, 7)
        WHERE ns = @ns AND waiter = @waiter AND job = @job AND state IS NULL;
        EXEC holdfast.let_go_v1 @ns, @now, @waiter, @freed OUTPUT;
    END
END
GO

-- Looks at what the notes tell, and frees what waited for it; @freed counts that.
CREATE PROCEDURE holdfast.settle_notes_v1 @ns int, @now bigint, @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n bigint = 0;
    DECLARE @next bigint;
    DECLARE @looks int = 5000;
    DECLARE @job char(36);
    DECLARE @is_new bit;
    DECLARE @before char(36);
    DECLARE @queue nvarchar(200);
    DECLARE @task nvarchar(200);
    DECLARE @limit_key nvarchar(200);
    DECLARE @sequence nvarchar(200);
    SET @freed = 0;
    WHILE @looks > 0
    BEGIN
        SET @next = NULL;
        SELECT TOP (1)
            @next = t.n, @job = t.job, @is_new = t.is_new, @before = t.before_id, @queue = t.queue, @task = t.task,
            @limit_key = t.limit_key, @sequence = t.sequence
        FROM holdfast.note AS t WITH (READPAST, READCOMMITTEDLOCK)
        WHERE t.ns = @ns AND t.n > @n
        ORDER BY t.n;
        IF @next IS NULL
            BREAK;
        SET @n = @next;
        SET @looks = @looks - 1;
        DELETE FROM holdfast.note WHERE ns = @ns AND n = @n;
        IF @is_new = 1
            EXEC holdfast.settle_new_v1 @ns, @now, @job, @before, @freed OUTPUT;
        ELSE
        BEGIN
            EXEC holdfast.settle_links_v1 @ns, @now, @job, @freed OUTPUT;
            IF @sequence IS NOT NULL
            BEGIN
                EXEC holdfast.settle_halt_v1 @ns, @job, @sequence;
                EXEC holdfast.call_v1 @ns, @now, @sequence, @freed OUTPUT;
            END
            EXEC holdfast.mark_gates_v1 @ns, @queue, @task, @limit_key, N'';
        END
    END
    EXEC holdfast.open_gates_v1 @ns, @now, @freed OUTPUT;
END
GO

-- The same, as far as nobody keeps a row locked for long that has to be read: then the notes stay for the next time. Needs the
-- flow lock.
CREATE PROCEDURE holdfast.settle_v1 @ns int, @now bigint, @freed int OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT OFF;
    SAVE TRANSACTION holdfast_settle;
    BEGIN TRY
        EXEC holdfast.settle_notes_v1 @ns, @now, @freed OUTPUT;
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222 OR XACT_STATE() <> 1
            THROW;
        ROLLBACK TRANSACTION holdfast_settle;
        SET @freed = 0;
    END CATCH
END
GO

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

-- Gives those of #new that have fair keys their ranks. Whoever adds as part of something else (@waits is 0) waits for nobody,
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
                             AND (j.ready = 1 OR (j.ready = 0 AND j.due <= @now))),
                        (SELECT CASE WHEN MAX(f.last) > @now THEN MAX(f.last) ELSE @now END FROM holdfast.fair AS f
                         WHERE f.ns = @ns AND f.queue = u.queue)) AS base
                FROM #new AS u
                WHERE u.fair_key IS NOT NULL AND u.stood IS NULL
                GROUP BY u.queue, u.priority
            ) AS p ON p.queue = k.queue AND p.priority = k.priority
        ) AS t
    ) AS r ON r.n = w.n;
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

-- Links the jobs of #new that were added, in their order, and settles each before the next unless this is part of something
-- else.
CREATE PROCEDURE holdfast.link_new_v1 @ns int, @now bigint, @settles bit
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @n int = 0;
    DECLARE @got bit = 0;
    DECLARE @freed int;
    IF NOT EXISTS (
        SELECT 1 FROM #new AS w
        WHERE w.stood IS NULL
            AND (w.sequence IS NOT NULL OR w.after_json IS NOT NULL OR w.before_id IS NOT NULL OR w.held IS NOT NULL))
        RETURN;
    EXEC holdfast.use_flow_v1 @ns;
    IF @settles = 1 AND EXISTS (
        SELECT 1 FROM #new AS w WHERE w.stood IS NULL AND (w.after_json IS NOT NULL OR w.before_id IS NOT NULL))
    BEGIN
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
            EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
    END
    WHILE 1 = 1
    BEGIN
        SELECT @n = MIN(w.n) FROM #new AS w
        WHERE w.stood IS NULL AND (w.after_json IS NOT NULL OR w.before_id IS NOT NULL) AND w.n > @n;
        IF @n IS NULL
            BREAK;
        EXEC holdfast.link_one_v1 @ns, @n;
        INSERT INTO holdfast.note (ns, job, is_new, before_id) SELECT @ns, w.id, 1, w.before_id FROM #new AS w WHERE w.n = @n;
        IF @got = 1
            EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
    END
END
GO

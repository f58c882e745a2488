-- min-client: 1
-- Marks the gates that a limit concerns, to be looked at by the next tick.
CREATE PROCEDURE holdfast.mark_limit_v1 @ns int, @scope varchar(10), @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @gate nvarchar(220) = @scope + N':' + @name;
    IF @scope <> 'each_key'
    BEGIN
        EXEC holdfast.mark_v1 @ns, @gate;
        RETURN;
    END
    SET @gate = N'key:';
    WHILE 1 = 1
    BEGIN
        SELECT @gate = MIN(j.gate) FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate > @gate AND j.gate < N'key;';
        IF @gate IS NULL
            BREAK;
        EXEC holdfast.mark_v1 @ns, @gate;
    END
END
GO

-- Stores a limit in the place of the one with its scope and name; one that is declared replaces none that is not. Needs the
-- lock.
CREATE PROCEDURE holdfast.put_limit_v1
    @ns int, @scope varchar(10), @name nvarchar(200), @concurrency int, @rate bigint, @period bigint, @burst bigint,
    @paused bit, @weight float, @declared bit
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @now bigint = holdfast.now_v1();
    IF @declared = 1 AND EXISTS (
        SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name AND l.declared = 0)
        RETURN;
    UPDATE holdfast.limits SET
        concurrency = @concurrency, rate = @rate, period = @period, burst = @burst, paused = @paused, weight = @weight,
        declared = @declared, since = CASE WHEN @paused = 1 THEN COALESCE(since, @now) END
    WHERE ns = @ns AND scope = @scope AND name = @name;
    IF @@ROWCOUNT = 0
        INSERT INTO holdfast.limits (ns, scope, name, concurrency, rate, period, burst, paused, weight, declared, since)
        VALUES (@ns, @scope, @name, @concurrency, @rate, @period, @burst, @paused, @weight, @declared,
                CASE WHEN @paused = 1 THEN @now END);
    IF @paused = 1 OR @concurrency IS NOT NULL OR @rate IS NOT NULL
        EXEC holdfast.use_flow_v1 @ns;
    EXEC holdfast.mark_limit_v1 @ns, @scope, @name;
END
GO

-- Removes a limit, if there is one; 0 if the flow lock was not to be had.
CREATE PROCEDURE holdfast.remove_limit_v1 @ns int, @scope varchar(10), @name nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @got bit;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
        BEGIN
            DELETE FROM holdfast.limits WHERE ns = @ns AND scope = @scope AND name = @name;
            IF @@ROWCOUNT > 0
                EXEC holdfast.mark_limit_v1 @ns, @scope, @name;
        END
        COMMIT TRANSACTION;
        SELECT @got AS got;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Puts a limit in the place of one that was read, or of none, or removes it: 2 if that is not what stands there, 0 if the flow
-- lock was not to be had.
CREATE PROCEDURE holdfast.swap_limit_v1
    @ns int, @scope varchar(10), @name nvarchar(200), @stood bit, @stood_concurrency int, @stood_rate bigint,
    @stood_period bigint, @stood_burst bigint, @stood_paused bit, @stood_weight float, @stood_declared bit, @stands bit,
    @concurrency int, @rate bigint, @period bigint, @burst bigint, @paused bit, @weight float, @declared bit
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @got bit;
    DECLARE @is_same bit = 0;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
        BEGIN
            IF @stands = 1 AND EXISTS (
                SELECT 1 FROM holdfast.limits AS l
                WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name AND EXISTS (
                    SELECT l.concurrency, l.rate, l.period, l.burst, l.paused, l.weight, l.declared
                    INTERSECT
                    SELECT @concurrency, @rate, @period, @burst, @paused, @weight, @declared))
                SET @is_same = 1;
            IF @stands = 0 AND NOT EXISTS (
                SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name)
                SET @is_same = 1;
            IF @stood = 1 AND EXISTS (
                SELECT 1 FROM holdfast.limits AS l
                WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name AND EXISTS (
                    SELECT l.concurrency, l.rate, l.period, l.burst, l.paused, l.weight, l.declared
                    INTERSECT
                    SELECT @stood_concurrency, @stood_rate, @stood_period, @stood_burst, @stood_paused, @stood_weight,
                        @stood_declared))
                SET @is_same = 1;
            IF @stood = 0 AND NOT EXISTS (
                SELECT 1 FROM holdfast.limits AS l WHERE l.ns = @ns AND l.scope = @scope AND l.name = @name)
                SET @is_same = 1;
            IF @is_same = 1
            BEGIN
                IF @stands = 1
                BEGIN
                    -- Any limit may take the place of one that is declared.
                    UPDATE holdfast.limits SET declared = 1 WHERE ns = @ns AND scope = @scope AND name = @name;
                    EXEC holdfast.put_limit_v1 @ns, @scope, @name, @concurrency, @rate, @period, @burst, @paused, @weight,
                        @declared;
                END
                ELSE
                BEGIN
                    DELETE FROM holdfast.limits WHERE ns = @ns AND scope = @scope AND name = @name;
                    EXEC holdfast.mark_limit_v1 @ns, @scope, @name;
                END
            END
        END
        COMMIT TRANSACTION;
        SELECT CASE WHEN @got = 0 THEN 0 WHEN @is_same = 1 THEN 1 ELSE 2 END AS outcome;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Lets a job go that is held; whether it is stored.
CREATE PROCEDURE holdfast.release_v1 @ns int, @job char(36)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @now bigint;
    DECLARE @flows bit;
    DECLARE @is_late bit;
    DECLARE @freed int;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.enter_flow_v1 @ns, @flows OUTPUT, @is_late OUTPUT;
        SET LOCK_TIMEOUT 2000;
        SET @now = holdfast.now_v1();
        UPDATE holdfast.done SET held = NULL WHERE ns = @ns AND id = @job AND held = 1;
        UPDATE holdfast.job SET held = NULL WHERE ns = @ns AND id = @job AND held = 1;
        IF @@ROWCOUNT > 0
        BEGIN
            INSERT INTO holdfast.note (ns, job, is_new) VALUES (@ns, @job, 1);
            IF @flows = 1 AND @is_late = 0
                EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
        END
        SELECT CASE WHEN EXISTS (
            SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = @job) THEN 1 ELSE 0 END AS is_stored;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Ends the halt of a sequence, if it is halted; 0 if the flow lock was not to be had.
CREATE PROCEDURE holdfast.proceed_v1 @ns int, @sequence nvarchar(200)
AS
BEGIN
    SET NOCOUNT ON;
    SET XACT_ABORT ON;
    DECLARE @got bit;
    DECLARE @now bigint;
    DECLARE @freed int = 0;
    BEGIN TRY
        BEGIN TRANSACTION;
        EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;
        IF @got = 1
        BEGIN
            SET @now = holdfast.now_v1();
            EXEC holdfast.settle_v1 @ns, @now, @freed OUTPUT;
            DELETE FROM holdfast.halt WHERE ns = @ns AND sequence = @sequence;
            EXEC holdfast.call_v1 @ns, @now, @sequence, @freed OUTPUT;
        END
        COMMIT TRANSACTION;
        SELECT @got AS got;
    END TRY
    BEGIN CATCH
        THROW;
    END CATCH
END
GO

-- Sweeps up what ended where nothing was ever held back.
CREATE PROCEDURE holdfast.sweep_notes_v1 @ns int
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @got bit;
    DECLARE @swept int = 1;
    EXEC holdfast.take_flow_v1 @ns, 'Shared', 1, @got OUTPUT;
    IF @got = 0 OR EXISTS (
        SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        RETURN;
    -- Who is just beginning to use flow has notes of new jobs, which will be looked at later, and tell the same.
    WHILE @swept > 0
    BEGIN
        DELETE TOP (1000) FROM holdfast.note WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE ns = @ns AND is_new = 0;
        SET @swept = @@ROWCOUNT;
    END
END
GO

-- Sweeps up gates and halts that no job needs any more, unless somebody has the flow lock. Halts of jobs that are gone are
-- noted.
CREATE PROCEDURE holdfast.sweep_gates_v1 @ns int, @now bigint
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @got bit;
    EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 0, @got OUTPUT;
    IF @got = 0
        RETURN;
    INSERT INTO holdfast.note (ns, job, is_new, sequence)
    SELECT @ns, h.job, 0, h.sequence FROM holdfast.halt AS h
    WHERE h.ns = @ns AND NOT EXISTS (SELECT 1 FROM holdfast.jobs AS s WHERE s.ns = @ns AND s.id = h.job);
    DELETE FROM holdfast.gate WHERE ns = @ns AND last <= @now AND opens IS NULL;
    DELETE FROM holdfast.behind
    WHERE ns = @ns AND NOT EXISTS (SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = holdfast.behind.other);
END
GO

-- Sweeps up what no job needs any more.
CREATE PROCEDURE holdfast.sweep_flow_v1 @ns int, @now bigint, @limit int
AS
BEGIN
    SET NOCOUNT ON;
    IF NOT EXISTS (SELECT 1 FROM holdfast.flowing AS f WITH (READPAST, READCOMMITTEDLOCK) WHERE f.ns = @ns)
        EXEC holdfast.sweep_notes_v1 @ns;
    ELSE
        EXEC holdfast.sweep_gates_v1 @ns, @now;
    DELETE TOP (@limit) FROM holdfast.fair WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE ns = @ns AND last <= @now AND NOT EXISTS (
        SELECT 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.queue = holdfast.fair.queue AND j.ready = 1);
END
GO

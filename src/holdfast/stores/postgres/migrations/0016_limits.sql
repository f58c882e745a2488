-- min-client: 13
-- Marks the gates that a limit concerns, if jobs are parked there, to be looked at by the next tick.
CREATE FUNCTION holdfast.mark_v1(p_ns integer, p_scope text, p_name text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    IF p_scope = 'each_key' THEN
        INSERT INTO holdfast.gate (ns, name, last, opens)
        WITH RECURSIVE known (name) AS (
            (SELECT j.gate FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate > 'key:' AND j.gate < 'key;'
             ORDER BY j.gate LIMIT 1)
            UNION ALL
            SELECT (SELECT j.gate FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate > k.name AND j.gate < 'key;'
                    ORDER BY j.gate LIMIT 1)
            FROM known AS k WHERE k.name IS NOT NULL
        )
        SELECT p_ns, k.name, 0, 0 FROM known AS k WHERE k.name IS NOT NULL
        ON CONFLICT (ns, name) DO UPDATE SET opens = 0;
    ELSE
        INSERT INTO holdfast.gate (ns, name, last, opens) VALUES (p_ns, p_scope || ':' || p_name, 0, 0)
        ON CONFLICT (ns, name) DO UPDATE SET opens = 0;
    END IF;
END
$$;

-- Stores limits, each in the place of the one with its scope and name; one that is declared replaces none that is not.
CREATE FUNCTION holdfast.put_limits_v1(p_ns integer, p_limits jsonb) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    r record;
    v_now bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns));
    v_now := holdfast.now_v1();
    FOR r IN
        SELECT l.* FROM jsonb_array_elements(p_limits) WITH ORDINALITY AS e(one, n)
        CROSS JOIN LATERAL jsonb_to_record(e.one) AS l(
            scope text, name text, concurrency integer, rate bigint, period bigint, burst bigint, paused boolean,
            weight double precision, declared boolean)
        ORDER BY e.n
    LOOP
        INSERT INTO holdfast.limits AS l (
            ns, scope, name, concurrency, rate, period, burst, paused, weight, declared, since)
        VALUES (p_ns, r.scope, r.name, r.concurrency, r.rate, r.period, r.burst, r.paused, r.weight, r.declared,
                CASE WHEN r.paused THEN v_now END)
        ON CONFLICT (ns, scope, name) DO UPDATE
        SET concurrency = excluded.concurrency, rate = excluded.rate, period = excluded.period, burst = excluded.burst,
            paused = excluded.paused, weight = excluded.weight, declared = excluded.declared,
            since = CASE WHEN excluded.paused THEN coalesce(l.since, excluded.since) END
        WHERE l.declared OR NOT excluded.declared;
        IF FOUND THEN
            IF r.paused OR r.concurrency IS NOT NULL OR r.rate IS NOT NULL THEN
                PERFORM holdfast.use_flow_v1(p_ns);
            END IF;
            PERFORM holdfast.mark_v1(p_ns, r.scope, r.name);
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION holdfast.remove_limit_v1(p_ns integer, p_scope text, p_name text) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns));
    DELETE FROM holdfast.limits AS l WHERE l.ns = p_ns AND l.scope = p_scope AND l.name = p_name;
    IF FOUND THEN
        PERFORM holdfast.mark_v1(p_ns, p_scope, p_name);
    END IF;
END
$$;

-- Puts a limit in the place of one that was read, or of none, or removes it; false if that is not what stands there.
CREATE FUNCTION holdfast.swap_limit_v1(
    p_ns integer, p_scope text, p_name text, p_known jsonb, p_limit jsonb
) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    v_stands jsonb;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns));
    v_stands := (
        SELECT to_jsonb(l) - 'ns' - 'since' FROM holdfast.limits AS l
        WHERE l.ns = p_ns AND l.scope = p_scope AND l.name = p_name);
    IF p_limit - 'paused_since' IS NOT DISTINCT FROM v_stands THEN
        RETURN true;
    END IF;
    IF p_known - 'paused_since' IS DISTINCT FROM v_stands THEN
        RETURN false;
    END IF;
    IF p_limit IS NULL THEN
        PERFORM holdfast.remove_limit_v1(p_ns, p_scope, p_name);
        RETURN true;
    END IF;
    -- Any limit may take the place of one that is declared.
    UPDATE holdfast.limits AS l SET declared = true WHERE l.ns = p_ns AND l.scope = p_scope AND l.name = p_name;
    PERFORM holdfast.put_limits_v1(p_ns, jsonb_build_array(p_limit));
    RETURN true;
END
$$;

-- How many jobs of a gate are leased, and how many parked there.
CREATE FUNCTION holdfast.usage_v1(p_ns integer, p_gate text, OUT running bigint, OUT parked bigint) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    v_scope text := split_part(p_gate, ':', 1);
    v_name text := substr(p_gate, strpos(p_gate, ':') + 1);
BEGIN
    parked := (SELECT count(*) FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate = p_gate);
    running := CASE v_scope
        WHEN 'key' THEN (
            SELECT count(*) FROM holdfast.job AS j WHERE j.ns = p_ns AND j.limit_key = v_name AND j.worker IS NOT NULL)
        WHEN 'sequence' THEN (
            SELECT count(*) FROM holdfast.job AS j WHERE j.ns = p_ns AND j.sequence = v_name AND j.worker IS NOT NULL)
        WHEN 'queue' THEN (
            SELECT count(*) FROM holdfast.job AS j WHERE j.ns = p_ns AND j.worker IS NOT NULL AND j.queue = v_name)
        WHEN 'task' THEN (
            SELECT count(*) FROM holdfast.job AS j WHERE j.ns = p_ns AND j.worker IS NOT NULL AND j.task = v_name)
        ELSE 0 END;
END
$$;

-- Lets a job go that is held; false if it is not stored.
CREATE FUNCTION holdfast.release_v1(p_ns integer, p_job uuid) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
BEGIN
    UPDATE holdfast.job AS j SET held = NULL WHERE j.ns = p_ns AND j.id = p_job AND j.held;
    IF FOUND THEN
        PERFORM holdfast.tell_v1(
            p_ns, holdfast.now_v1(), ARRAY[(p_ns, p_job, true, NULL, NULL, NULL, NULL, NULL, NULL)::holdfast.note]);
        RETURN true;
    END IF;
    UPDATE holdfast.done AS d SET held = NULL WHERE d.ns = p_ns AND d.id = p_job AND d.held;
    RETURN EXISTS (SELECT FROM holdfast.jobs AS s WHERE s.ns = p_ns AND s.id = p_job);
END
$$;

-- Ends the halt of a sequence, if it is halted.
CREATE FUNCTION holdfast.proceed_v1(p_ns integer, p_sequence text) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns));
    PERFORM holdfast.settle_v1(p_ns, v_now, '{}', NULL, NULL);
    DELETE FROM holdfast.halt AS h WHERE h.ns = p_ns AND h.sequence = p_sequence;
    PERFORM holdfast.call_v1(p_ns, v_now, ARRAY[p_sequence]);
END
$$;

-- Sweeps up what no job needs any more. Halts of jobs that are gone are noted.
CREATE FUNCTION holdfast.sweep_flow_v1(p_ns integer, p_now bigint, p_limit integer) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    v_first uuid := holdfast.id_at_v1((SELECT min(d.upto) - 86400000000 FROM holdfast.day AS d WHERE d.made));
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns) THEN
        DELETE FROM holdfast.note AS n WHERE n.ns = p_ns;
    END IF;
    INSERT INTO holdfast.note (ns, job, is_new, sequence)
    SELECT p_ns, h.job, false, h.sequence FROM holdfast.halt AS h
    WHERE h.ns = p_ns AND NOT EXISTS (SELECT FROM holdfast.jobs AS s WHERE s.ns = p_ns AND s.id = h.job);
    -- Those whose jobs were dropped with their day.
    DELETE FROM holdfast.link AS l
    WHERE l.ns = p_ns AND l.ctid = ANY (ARRAY(
        SELECT i.ctid FROM holdfast.link AS i
        WHERE i.ns = p_ns AND i.waiter < v_first
          AND NOT EXISTS (SELECT FROM holdfast.jobs AS s WHERE s.ns = p_ns AND s.id = i.waiter)
        LIMIT p_limit));
    IF pg_try_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns)) THEN
        DELETE FROM holdfast.gate AS g WHERE g.ns = p_ns AND g.last <= p_now AND g.opens IS NULL;
    END IF;
    DELETE FROM holdfast.fair AS f
    WHERE f.ctid = ANY (ARRAY(
        SELECT i.ctid FROM holdfast.fair AS i
        WHERE i.ns = p_ns AND i.last <= p_now
          AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.queue = i.queue AND j.ready)
        LIMIT p_limit FOR UPDATE SKIP LOCKED));
END
$$;

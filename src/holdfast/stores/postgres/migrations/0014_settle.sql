-- min-client: 13
-- Tells links how the jobs ended that they are pending for, and frees those that wait no longer; which.
-- A waiting job that somebody is changing just now is noted, and looked at again by whoever settles next.
CREATE FUNCTION holdfast.settle_links_v1(
    p_ns integer, p_now bigint, p_new uuid[], p_befores uuid[], p_ended uuid[]
) RETURNS uuid[] LANGUAGE plpgsql
AS $$
DECLARE
    v_waiters uuid[];
    v_got uuid[];
    v_freed uuid[];
BEGIN
    -- Those that were put before one that waits no longer. Where it has waited for them before, that is told already; what is
    -- pending is asked for in a way that fits no index.
    DELETE FROM holdfast.link AS l USING unnest(p_new, p_befores) AS n(job, before)
    WHERE l.ns = p_ns AND l.waiter = n.before AND l.job = n.job AND coalesce(l.state, -1) < 0 AND NOT EXISTS (
        SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = n.before AND j.gate = 'after' OFFSET 0);
    WITH asked AS (
        SELECT l.waiter, l.job FROM unnest(p_new) AS n(job)
        CROSS JOIN LATERAL (
            SELECT i.waiter, i.job FROM holdfast.link AS i
            WHERE i.ns + 0 = p_ns AND i.waiter = n.job AND i.state IS NULL OFFSET 0
        ) AS l
        UNION
        SELECT l.waiter, l.job FROM unnest(p_ended) AS e(job)
        CROSS JOIN LATERAL (
            SELECT i.waiter, i.job FROM holdfast.link AS i
            WHERE i.ns + 0 = p_ns AND i.job = e.job AND i.state IS NULL OFFSET 0
        ) AS l
    ), ends AS (
        SELECT a.waiter, a.job,
               CASE WHEN j.id IS NOT NULL THEN NULL
                    WHEN d.state = 6 AND (w.after_any IS NOT TRUE) THEN NULL
                    ELSE coalesce(d.state, 7) END AS state
        FROM asked AS a
        LEFT JOIN LATERAL (SELECT i.id FROM holdfast.job AS i WHERE i.ns = p_ns AND i.id = a.job OFFSET 0) AS j ON true
        LEFT JOIN LATERAL (SELECT i.state FROM holdfast.done AS i WHERE i.ns = p_ns AND i.id = a.job OFFSET 0) AS d ON true
        LEFT JOIN LATERAL (
            (SELECT i.after_any FROM holdfast.job AS i WHERE i.ns = p_ns AND i.id = a.waiter OFFSET 0)
            UNION ALL
            (SELECT i.after_any FROM holdfast.done AS i WHERE i.ns = p_ns AND i.id = a.waiter OFFSET 0)
            LIMIT 1
        ) AS w ON true
    ), told AS (
        UPDATE holdfast.link AS l SET state = e.state FROM ends AS e
        WHERE l.ns = p_ns AND l.waiter = e.waiter AND l.job = e.job AND e.state IS NOT NULL
        RETURNING l.waiter
    )
    SELECT array_agg(DISTINCT t.waiter) INTO v_waiters FROM told AS t;
    v_waiters := coalesce(v_waiters, '{}') || p_new;
    IF v_waiters = '{}' THEN
        RETURN v_waiters;
    END IF;
    v_got := ARRAY(
        SELECT j.id FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = ANY (v_waiters) FOR NO KEY UPDATE SKIP LOCKED);
    INSERT INTO holdfast.note (ns, job, is_new)
    SELECT p_ns, j.id, true FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = ANY (v_waiters) AND j.id <> ALL (v_got);
    WITH waiting AS (
        SELECT g.id, (
                   SELECT count(*) FROM holdfast.link AS l WHERE l.ns + 0 = p_ns AND l.waiter = g.id AND l.state <> 3
               ) AS unmet, EXISTS (
                   SELECT FROM holdfast.link AS l WHERE l.ns + 0 = p_ns AND l.waiter = g.id AND l.state IS NULL OFFSET 0
               ) AS is_pending
        FROM unnest(v_got) AS g(id) OFFSET 0
    ), freed AS (
        UPDATE holdfast.job AS j
        SET unmet = nullif(w.unmet, 0),
            gate = CASE WHEN w.is_pending OR j.held THEN j.gate END,
            ready = CASE WHEN NOT (w.is_pending OR coalesce(j.held, false)) THEN j.due <= p_now END
        FROM waiting AS w
        WHERE j.ns = p_ns AND j.id = w.id AND j.gate = 'after'
        RETURNING j.id, j.gate
    )
    SELECT coalesce(array_agg(f.id), '{}') INTO v_freed FROM freed AS f WHERE f.gate IS NULL;
    RETURN v_freed;
END
$$;

-- Sets and ends the halts of sequences by what became of their jobs.
CREATE FUNCTION holdfast.settle_halts_v1(p_ns integer, p_jobs uuid[], p_sequences text[]) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO holdfast.halt AS h (ns, sequence, job)
    SELECT DISTINCT ON (u.sequence) p_ns, u.sequence, u.job FROM unnest(p_jobs, p_sequences) AS u(job, sequence)
    CROSS JOIN LATERAL (
        SELECT i.finished FROM holdfast.done AS i
        WHERE i.ns = p_ns AND i.id = u.job AND i.halts AND i.state IN (4, 6) OFFSET 0
    ) AS d
    WHERE u.sequence IS NOT NULL ORDER BY u.sequence, d.finished DESC
    ON CONFLICT (ns, sequence) DO UPDATE SET job = excluded.job;
    DELETE FROM holdfast.halt AS h
    WHERE h.ns = p_ns AND h.sequence = ANY (p_sequences) AND h.job = ANY (p_jobs)
      AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = h.job OFFSET 0)
      AND NOT EXISTS (
          SELECT FROM holdfast.done AS d WHERE d.ns = p_ns AND d.id = h.job AND d.halts AND d.state IN (4, 6) OFFSET 0);
END
$$;

-- Looks at what ended, by these notes and those that others have left, and frees what waited for it, but for heads of lines
-- that will be claimed next, as in open. Needs the lock.
-- A job that somebody is ending in a transaction that is still open keeps its note.
CREATE FUNCTION holdfast.settle_v1(
    p_ns integer, p_now bigint, p_notes holdfast.note[], p_queues text[], p_tasks text[], OUT freed uuid[], OUT heads tid[],
    OUT head_queues text[]
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_left holdfast.note[];
    v_asked uuid[];
    v_new uuid[];
    v_befores uuid[];
    v_ended uuid[];
    v_sequences text[];
    v_queues text[];
    v_tasks text[];
    v_keys text[];
    v_gates text[];
    v_open record;
BEGIN
    freed := '{}';
    heads := '{}';
    head_queues := '{}';
    v_left := ARRAY(SELECT t FROM holdfast.note AS t WHERE t.ns = p_ns ORDER BY t.n LIMIT 5000);
    IF v_left <> '{}' THEN
        -- Whom each note is about that is still live.
        v_asked := ARRAY(
            SELECT j.id FROM (
                SELECT n.job FROM unnest(v_left) AS n WHERE NOT n.is_new
                UNION
                SELECT l.job FROM unnest(v_left) AS n
                CROSS JOIN LATERAL (
                    SELECT i.job FROM holdfast.link AS i
                    WHERE n.is_new AND i.ns + 0 = p_ns AND i.waiter = n.job AND i.state IS NULL OFFSET 0
                ) AS l
            ) AS a
            CROSS JOIN LATERAL (
                SELECT i.id FROM holdfast.job AS i
                WHERE i.ns = p_ns AND i.id = a.job AND i.worker IS NOT NULL OFFSET 0
            ) AS j);
        v_asked := ARRAY(
            SELECT a.id FROM unnest(v_asked) AS a(id) WHERE a.id <> ALL (ARRAY(
                SELECT j.id FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = ANY (v_asked) FOR KEY SHARE SKIP LOCKED)));
        DELETE FROM holdfast.note AS d
        WHERE d.ns = p_ns AND d.n = ANY (ARRAY(
            SELECT n.n FROM unnest(v_left) AS n
            WHERE n.job <> ALL (v_asked) AND NOT (n.is_new AND EXISTS (
                SELECT FROM holdfast.link AS i
                WHERE i.ns + 0 = p_ns AND i.waiter = n.job AND i.state IS NULL AND i.job = ANY (v_asked) OFFSET 0))));
        p_notes := p_notes || v_left;
    END IF;
    SELECT coalesce(array_agg(n.job) FILTER (WHERE n.is_new), '{}'), array_agg(n.before) FILTER (WHERE n.is_new),
           coalesce(array_agg(n.job) FILTER (WHERE NOT n.is_new), '{}'), array_agg(n.sequence) FILTER (WHERE NOT n.is_new),
           array_agg(DISTINCT n.queue), array_agg(DISTINCT n.task), array_agg(DISTINCT n.limit_key)
    INTO v_new, v_befores, v_ended, v_sequences, v_queues, v_tasks, v_keys
    FROM unnest(p_notes) AS n;
    IF v_new <> '{}'
        OR (v_ended <> '{}' AND EXISTS (SELECT FROM holdfast.link AS l WHERE l.ns = p_ns AND l.state IS NULL))
    THEN
        freed := holdfast.settle_links_v1(p_ns, p_now, v_new, v_befores, v_ended);
    END IF;
    IF array_remove(v_sequences, NULL) <> '{}' THEN
        PERFORM holdfast.settle_halts_v1(p_ns, v_ended, v_sequences);
        freed := freed || holdfast.call_v1(
            p_ns, p_now, ARRAY(SELECT DISTINCT s.name FROM unnest(v_sequences) AS s(name) WHERE s.name IS NOT NULL));
    END IF;
    -- Whether any job is parked at all is not asked: those that no longer are stand before the others in the index for long.
    v_gates := ARRAY(
        SELECT 'queue:' || n.name FROM unnest(v_queues) AS n(name) WHERE n.name IS NOT NULL
        UNION ALL SELECT 'task:' || n.name FROM unnest(v_tasks) AS n(name) WHERE n.name IS NOT NULL
        UNION ALL SELECT 'key:' || n.name FROM unnest(v_keys) AS n(name) WHERE n.name IS NOT NULL
        UNION (SELECT g.name FROM holdfast.gate AS g
               WHERE g.ns = p_ns AND g.opens <= p_now ORDER BY g.opens LIMIT 1000));
    IF v_gates <> '{}' THEN
        SELECT * INTO v_open FROM holdfast.open_v1(p_ns, p_now, v_gates, 1, p_queues, p_tasks);
        freed := freed || v_open.freed;
        heads := v_open.heads;
        head_queues := v_open.head_queues;
    END IF;
END
$$;

-- Settles what ended by a call of its own, or notes it if it must not wait for others; whether the namespace uses flow.
CREATE FUNCTION holdfast.tell_v1(p_ns integer, p_now bigint, p_notes holdfast.note[]) RETURNS boolean LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns) THEN
        IF holdfast.take_flow_v1(p_ns) THEN
            PERFORM holdfast.settle_v1(p_ns, p_now, p_notes, NULL, NULL);
            RETURN true;
        END IF;
    ELSIF pg_try_advisory_xact_lock_shared(hashtextextended('holdfast.flow', p_ns)) THEN
        IF NOT EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns) THEN
            RETURN false;
        END IF;
    END IF;
    PERFORM holdfast.note_v1(p_ns, p_notes);
    RETURN true;
END
$$;

-- The ranks of new jobs that have fair keys. p_waits: whether to wait for others who add jobs of the same keys.
CREATE FUNCTION holdfast.ranks_v1(
    p_ns integer, p_now bigint, p_queues text[], p_priorities bigint[], p_flows jsonb[], p_waits boolean
) RETURNS bigint[] LANGUAGE plpgsql
AS $$
DECLARE
    v_queues text[];
    v_keys text[];
    v_lasts bigint[];
    v_ranks bigint[];
    v_is_joined boolean := EXISTS (SELECT FROM unnest(p_flows) AS f(flow) WHERE f.flow ? 'joined');
BEGIN
    SELECT array_agg(k.queue), array_agg(k.key) INTO v_queues, v_keys FROM (
        SELECT DISTINCT u.queue, u.flow ->> 'fair_key' AS key FROM unnest(p_queues, p_flows) AS u(queue, flow)
        WHERE u.flow ? 'fair_key' ORDER BY 1, 2
    ) AS k;
    IF v_keys IS NULL THEN
        RETURN NULL;
    END IF;
    IF NOT v_is_joined THEN
        INSERT INTO holdfast.fair (ns, queue, key, last)
        SELECT p_ns, k.queue, k.key, -9223372036854775808 FROM unnest(v_queues, v_keys) AS k(queue, key)
        ON CONFLICT DO NOTHING;
        IF p_waits THEN
            PERFORM FROM holdfast.fair AS f WHERE f.ns = p_ns AND (f.queue, f.key) IN (
                SELECT * FROM unnest(v_queues, v_keys)) ORDER BY f.queue, f.key FOR UPDATE;
        END IF;
    END IF;
    -- What is joined here are the arrays alone, and they may be long.
    PERFORM set_config('enable_hashjoin', 'on', true);
    WITH places AS (
        SELECT p.queue, p.priority, coalesce(
                   (SELECT coalesce(j.rank, j.due) FROM holdfast.job AS j
                    WHERE j.ns = p_ns AND j.queue = p.queue AND j.ready AND j.priority = p.priority
                    ORDER BY j.priority, coalesce(j.rank, j.due), j.id LIMIT 1),
                   greatest(p_now, (SELECT f.last FROM holdfast.fair AS f
                                    WHERE f.ns = p_ns AND f.queue = p.queue ORDER BY f.last DESC LIMIT 1))) AS floor
        FROM (
            SELECT DISTINCT u.queue, u.priority FROM unnest(p_queues, p_priorities, p_flows) AS u(queue, priority, flow)
            WHERE u.flow ? 'fair_key'
        ) AS p
    ), keys AS (
        SELECT k.queue, k.key, coalesce(
                   (SELECT f.last FROM holdfast.fair AS f WHERE f.ns = p_ns AND f.queue = k.queue AND f.key = k.key),
                   -9223372036854775808) AS last,
               floor(1000000 / coalesce((SELECT i.weight FROM holdfast.limits AS i
                                         WHERE i.ns = p_ns AND i.scope = 'key' AND i.name = k.key), 1))::bigint AS stride
        FROM unnest(v_queues, v_keys) AS k(queue, key)
    ), turns AS (
        SELECT u.n, u.queue, u.flow ->> 'fair_key' AS key, p.floor,
               row_number() OVER (PARTITION BY u.queue, u.flow ->> 'fair_key' ORDER BY u.n) AS turn
        FROM unnest(p_queues, p_priorities, p_flows) WITH ORDINALITY AS u(queue, priority, flow, n)
        JOIN places AS p ON p.queue = u.queue AND p.priority = u.priority
        WHERE u.flow ? 'fair_key'
    ), drawn AS (
        SELECT t.n, t.queue, t.key, t.turn * k.stride + greatest(k.last, max(t.floor - (t.turn - 1) * k.stride)
                   OVER (PARTITION BY t.queue, t.key ORDER BY t.turn)) AS rank
        FROM turns AS t JOIN keys AS k ON k.queue = t.queue AND k.key = t.key
    )
    SELECT (SELECT array_agg(d.rank ORDER BY u.n)
            FROM unnest(p_flows) WITH ORDINALITY AS u(flow, n) LEFT JOIN drawn AS d ON d.n = u.n),
           (SELECT array_agg(t.last ORDER BY t.queue, t.key)
            FROM (SELECT d.queue, d.key, max(d.rank) AS last FROM drawn AS d GROUP BY d.queue, d.key) AS t)
    INTO v_ranks, v_lasts;
    PERFORM set_config('enable_hashjoin', 'off', true);
    IF NOT v_is_joined THEN
        -- Whoever adds as part of something else does not wait, so that two of them never wait for each other.
        UPDATE holdfast.fair AS f SET last = greatest(f.last, n.last)
        FROM unnest(v_queues, v_keys, v_lasts) AS n(queue, key, last)
        WHERE f.ns = p_ns AND f.queue = n.queue AND f.key = n.key AND (p_waits OR f.ctid = (
            SELECT i.ctid FROM holdfast.fair AS i
            WHERE i.ns = p_ns AND i.queue = n.queue AND i.key = n.key FOR NO KEY UPDATE SKIP LOCKED));
    END IF;
    RETURN v_ranks;
END
$$;

-- Links new jobs, and settles that unless this is part of something else. p_stood has those that were not added.
-- Gives what was not known of the others before: rank, place aside, how many are unmet.
CREATE FUNCTION holdfast.link_v1(
    p_ns integer, p_now bigint, p_ids uuid[], p_flows jsonb[], p_stood jsonb, p_settles boolean
) RETURNS jsonb LANGUAGE plpgsql
AS $$
DECLARE
    v_stood integer[] := ARRAY(SELECT (s.one ->> 'n')::integer FROM jsonb_array_elements(p_stood) AS s(one));
    v_flows jsonb[] := ARRAY(
        SELECT CASE WHEN u.n <> ALL (v_stood) THEN u.flow END FROM unnest(p_flows) WITH ORDINALITY AS u(flow, n) ORDER BY u.n);
    v_is_joined boolean := EXISTS (SELECT FROM unnest(p_flows) AS f(flow) WHERE f.flow ? 'joined');
    v_told jsonb;
BEGIN
    IF EXISTS (SELECT FROM unnest(v_flows) AS f(flow) WHERE f.flow ?| ARRAY['after', 'held', 'before', 'sequence']) THEN
        PERFORM holdfast.use_flow_v1(p_ns);
    END IF;
    -- A job that this call adds later is not stored yet: nobody can wait for it, and no two for each other.
    INSERT INTO holdfast.link (ns, waiter, job, state)
    SELECT p_ns, u.id, a.job::uuid,
           CASE WHEN array_position(p_ids, a.job::uuid) > u.n
                     AND array_position(p_ids, a.job::uuid) <> ALL (v_stood) THEN 7 END
    FROM unnest(p_ids, v_flows) WITH ORDINALITY AS u(id, flow, n)
    CROSS JOIN LATERAL jsonb_array_elements_text(u.flow -> 'after') AS a(job)
    WHERE a.job::uuid <> u.id
    UNION
    SELECT p_ns, (u.flow ->> 'before')::uuid, u.id, NULL FROM unnest(p_ids, v_flows) WITH ORDINALITY AS u(id, flow, n)
    WHERE u.flow ? 'before'
      AND (coalesce(array_position(p_ids, (u.flow ->> 'before')::uuid), 0) < u.n
           OR array_position(p_ids, (u.flow ->> 'before')::uuid) = ANY (v_stood))
      AND EXISTS (
        SELECT FROM holdfast.job AS j
        WHERE j.ns = p_ns AND j.id = (u.flow ->> 'before')::uuid AND j.gate = 'after' OFFSET 0)
      -- One that this call has added stands as if it waited, until that is settled.
      AND NOT EXISTS (
        SELECT FROM unnest(p_ids, v_flows) AS w(id, flow)
        WHERE w.id = (u.flow ->> 'before')::uuid AND w.flow ? 'after' AND NOT w.flow ? 'held' AND NOT EXISTS (
            SELECT FROM jsonb_array_elements_text(w.flow -> 'after') AS a(job)
            CROSS JOIN LATERAL (
                SELECT i.state FROM holdfast.jobs AS i
                WHERE i.ns = p_ns AND i.id = a.job::uuid AND i.id <> w.id OFFSET 0
            ) AS t
            WHERE (t.state IN (0, 1, 2, 5) OR (t.state = 6 AND NOT w.flow ? 'after_any'))
              AND (coalesce(array_position(p_ids, a.job::uuid), 0) < array_position(p_ids, w.id)
                   OR array_position(p_ids, a.job::uuid) = ANY (v_stood))))
    ON CONFLICT DO NOTHING;
    INSERT INTO holdfast.note (ns, job, is_new, before)
    SELECT p_ns, u.id, true, (u.flow ->> 'before')::uuid FROM unnest(p_ids, v_flows) AS u(id, flow)
    WHERE u.flow ?| ARRAY['after', 'before'];
    IF FOUND AND p_settles AND NOT v_is_joined AND holdfast.take_flow_v1(p_ns) THEN
        PERFORM holdfast.settle_v1(p_ns, p_now, '{}', NULL, NULL);
    END IF;
    SELECT jsonb_agg(jsonb_build_object('n', u.n, 'rank', j.rank, 'unmet', coalesce(j.unmet, 0), 'parked', j.gate))
    INTO v_told FROM unnest(p_ids, v_flows) WITH ORDINALITY AS u(id, flow, n)
    CROSS JOIN LATERAL (SELECT * FROM holdfast.job AS i WHERE i.ns = p_ns AND i.id = u.id OFFSET 0) AS j
    WHERE u.flow ?| ARRAY['after', 'held', 'fair_key'];
    RETURN v_told;
END
$$;

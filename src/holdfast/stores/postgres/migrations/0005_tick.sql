-- min-client: 1
-- Plain successes, in ascending order of their ids: moves their jobs from job to done, and gives how many it moved, and what
-- there is to note of them if that is asked for.
-- Here and below, OFFSET 0 keeps each look-up a probe of its index for each row before it, in their order: what the
-- planner thinks of a table that was empty a moment ago must not turn it into anything else.
CREATE FUNCTION holdfast.complete_v1(
    p_ns integer, p_worker text, p_now bigint, p_ids uuid[], p_tokens bigint[], p_elapsed bigint[], p_results bytea[],
    p_notes boolean, OUT moved integer, OUT notes holdfast.note[]
) LANGUAGE plpgsql
AS $$
DECLARE
    v_told boolean := EXISTS (
        SELECT FROM holdfast.lease WHERE ns = p_ns AND job BETWEEN p_ids[1] AND p_ids[cardinality(p_ids)]);
BEGIN
    WITH gone AS (
        DELETE FROM holdfast.job AS j
        -- Only these rows tell the namespace, and the worker is compared in a way that fits no index: so each row is
        -- one probe of the index of ids, in their order.
        USING (
            SELECT p_ns AS ns, unnest(p_ids) AS id, unnest(p_tokens) AS token, unnest(p_elapsed) AS elapsed,
                   unnest(p_results) AS result
            OFFSET 0
        ) AS c
        WHERE j.ns = c.ns AND j.id = c.id AND j.token = c.token AND NOT j.worker IS DISTINCT FROM p_worker
        RETURNING j.id, j.task, j.queue, j.payload, j.priority, j.due, j.created, j.run, j.version, j.token, j.lease,
                  j.timeout, j.retry, j.headers, j.key, j.tags, j.cancel_asked, c.elapsed, c.result, j.limit_key, j.fair_key,
                  j.rank, j.sequence, j.place, j.halts, j.after_any, j.expires, j.unmet
    ), unlocked AS (
        DELETE FROM holdfast.key AS k
        USING (
            SELECT i.place, i.job
            FROM gone AS g
            CROSS JOIN LATERAL (
                SELECT ctid AS place, job, until FROM holdfast.key WHERE ns = p_ns AND key = g.key OFFSET 0
            ) AS i
            WHERE g.key IS NOT NULL AND i.job = g.id AND (i.until IS NULL OR i.until <= p_now)
            OFFSET 0
        ) AS c
        WHERE k.ctid = c.place AND k.job = c.job
    ), kept AS (
        INSERT INTO holdfast.done (
            ns, id, task, queue, payload, state, priority, due, created, run, failures, lost, suspect, version, token, ran_by,
            lease, timeout, retry, headers, key, tags, started, finished, cancel_asked, progress, progress_note, result,
            limit_key, fair_key, rank, sequence, place, halts, after_any, expires, unmet)
        SELECT p_ns, g.id, g.task, g.queue, g.payload, 3, g.priority, g.due, g.created, g.run, 0, 0, false,
               g.version + 1 + coalesce(t.changes, 0), g.token, p_worker, g.lease, g.timeout, g.retry, g.headers, g.key,
               g.tags, coalesce(t.started, p_now - g.elapsed), p_now, g.cancel_asked OR coalesce(t.cancel_asked, false),
               t.progress, t.progress_note, g.result, g.limit_key, g.fair_key, g.rank, g.sequence, g.place, g.halts,
               g.after_any, g.expires, g.unmet
        FROM gone AS g
        LEFT JOIN LATERAL (
            SELECT * FROM holdfast.lease WHERE v_told AND ns = p_ns AND job = g.id AND token = g.token OFFSET 0
        ) AS t ON true
        RETURNING queue, tableoid AS part
    ), counted AS (
        INSERT INTO holdfast.tally (ns, queue, state, part, jobs)
        SELECT p_ns, queue, 3, part, count(*) FROM kept GROUP BY queue, part
    )
    SELECT (SELECT count(*) FROM kept), CASE WHEN p_notes THEN ARRAY(
        SELECT (p_ns, g.id, false, NULL, g.queue, g.task, g.limit_key, g.sequence, NULL)::holdfast.note FROM gone AS g) END
    INTO moved, notes;
    IF EXISTS (
        SELECT FROM holdfast.lease WHERE ns = p_ns AND worker = p_worker AND cancel_asked AND job = ANY (p_ids))
    THEN
        -- A wish that the statement above waited for is newer than what it saw.
        UPDATE holdfast.done AS d SET cancel_asked = true, version = d.version + 1
        FROM holdfast.lease AS l
        WHERE l.ns = p_ns AND l.worker = p_worker AND l.cancel_asked AND l.job = ANY (p_ids)
          AND d.ns = p_ns AND d.id = l.job AND d.token = l.token AND NOT d.cancel_asked;
    END IF;
END
$$;

-- The tick: plain successes, then other moves, then promotion and claim of what is wanted. One result may stand for those
-- of all successes. Gives the claimed jobs, and at last one row that has `answer`: what else there is to tell, as JSON,
-- whose `asked` leaves out those that were just claimed. There `priority` is the store's now, `due` how long until the next
-- job is due, `created` how many entries were read, and `run` is 1 if the worker is registered. `rest` tells of a job what
-- is not as in one that was just added and then claimed.
-- While an old transaction is open, claimed jobs stay in the index as dead entries that each claim must pass. So it is told
-- how many entries were read, and the caller may then ask to begin behind them: p_floors has for a queue [priority, due,
-- id] for each priority, and only these priorities are claimed then; p_due_floor is an instant up to which all that was
-- due is ready. That is left out of account where limits, sequences or links are used: all claims there come one after the
-- other, each by what the others have left.
CREATE FUNCTION holdfast.tick_v1(
    p_ns integer, p_worker text, p_seq bigint, p_ids uuid[], p_tokens bigint[], p_elapsed bigint[], p_results bytea[],
    p_moves jsonb, p_queues text[], p_tasks text[], p_limit integer, p_lease bigint, p_repeat boolean, p_wake text,
    p_floors jsonb, p_due_floor bigint
) RETURNS TABLE (
    answer text, id uuid, task text, queue text, payload bytea, priority bigint, due bigint, created bigint, run integer,
    version integer, token bigint, headers bytea, rest json
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
    v_now bigint;
    v_flows boolean;
    v_is_late boolean := false;
    v_notes holdfast.note[];
    v_freed uuid[];
    v_heads tid[];
    v_head_queues text[];
    v_is_freed boolean := false;
    v_paused_tasks text[];
    v_moved integer := 0;
    v_refused integer[];
    v_verdicts text;
    v_registered boolean;
    v_is_asked boolean;
    v_asked json;
    v_paused text[];
    v_queue text;
    v_due bigint;
    v_dues bigint[];
    v_next bigint;
    v_left integer := p_limit;
    v_got integer;
    v_read bigint;
    v_due_floor bigint := coalesce(p_due_floor, -9223372036854775808);
    v_floors jsonb;
    v_floor jsonb;
BEGIN
    SELECT holdfast.now_v1(), EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns) INTO v_now, v_flows;
    IF v_flows THEN
        v_notes := holdfast.leased_v1(p_ns, p_moves);
    END IF;
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    IF p_lease BETWEEN 1 AND 20000000 THEN
        -- Who has short leases does not wait long for an answer.
        PERFORM set_config('lock_timeout', greatest(1, p_lease / 20000) || 'ms', true);
    END IF;
    IF p_ids IS NOT NULL THEN
        IF cardinality(p_results) < cardinality(p_ids) THEN
            p_results := array_fill(p_results[1], ARRAY[cardinality(p_ids)]);
        END IF;
        BEGIN
            SELECT c.moved, v_notes || c.notes INTO v_moved, v_notes
            FROM holdfast.complete_v1(p_ns, p_worker, v_now, p_ids, p_tokens, p_elapsed, p_results, v_flows) AS c;
        EXCEPTION WHEN lock_not_available THEN
            -- One of them is locked for long; the others must not wait for it, nor the caller for each.
            PERFORM set_config('lock_timeout', '10ms', true);
            PERFORM holdfast.reach_v1();
            FOR v_got IN 1 .. cardinality(p_ids) LOOP
                BEGIN
                    SELECT v_moved + c.moved, v_notes || c.notes INTO v_moved, v_notes
                    FROM holdfast.complete_v1(
                        p_ns, p_worker, v_now, p_ids[v_got:v_got], p_tokens[v_got:v_got], p_elapsed[v_got:v_got],
                        p_results[v_got:v_got], v_flows) AS c;
                EXCEPTION WHEN lock_not_available THEN
                    CONTINUE;
                END;
            END LOOP;
        END;
        IF v_moved < cardinality(p_ids) THEN
            SELECT array_agg(m.n - 1 ORDER BY m.n) INTO v_refused
            FROM unnest(p_ids, p_tokens) WITH ORDINALITY AS m(id, token, n)
            WHERE NOT holdfast.late_v1(p_ns, p_worker, m.id, m.token, 'success', false);
        END IF;
    END IF;
    IF p_moves IS NOT NULL THEN
        v_verdicts := holdfast.moves_v1(p_ns, p_worker, v_now, p_moves);
    END IF;
    IF NOT v_flows THEN
        -- Until the commit nobody counts or links who would not see what this tick does.
        v_is_late := NOT pg_try_advisory_xact_lock_shared(hashtextextended('holdfast.flow', p_ns));
    END IF;

    SELECT coalesce((SELECT w.live_until > v_now FROM holdfast.worker AS w WHERE w.ns = p_ns AND w.id = p_worker), false),
           ARRAY(SELECT q.name FROM holdfast.queue AS q WHERE q.ns = p_ns AND q.name = ANY (p_queues) AND q.paused),
           EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.worker = p_worker AND j.cancel_asked)
           OR EXISTS (SELECT FROM holdfast.lease AS l WHERE l.ns = p_ns AND l.worker = p_worker AND l.cancel_asked),
           ARRAY(
               SELECT (SELECT j.due FROM holdfast.job AS j
                       WHERE j.ns = p_ns AND j.queue = q.name AND NOT j.ready AND j.due > v_due_floor
                       ORDER BY j.due LIMIT 1)
               FROM unnest(p_queues) AS q(name)),
           pg_stat_get_xact_tuples_returned('holdfast.job_ready'::regclass),
           v_is_late OR (NOT v_flows AND EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns))
    INTO v_registered, v_paused, v_is_asked, v_dues, v_read, v_is_late;
    IF v_flows OR v_is_late THEN
        IF NOT v_flows THEN
            v_notes := holdfast.ended_v1(p_ns, coalesce(p_ids, '{}') || ARRAY(
                SELECT (m.move ->> 'job')::uuid FROM jsonb_array_elements(p_moves) AS m(move)
                WHERE m.move ->> 'outcome' IS NOT NULL));
            -- If it was this tick that used flow first, or nobody else is at work any more.
            v_flows := pg_try_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns));
            v_is_late := NOT v_flows;
        END IF;
        SELECT t.freed, t.heads, t.head_queues, t.is_late, t.paused_tasks
        INTO v_freed, v_heads, v_head_queues, v_is_late, v_paused_tasks
        FROM holdfast.tick_flow_v1(
            p_ns, v_now, v_notes, CASE WHEN v_registered AND p_limit > 0 AND NOT p_repeat THEN p_queues END, p_tasks,
            v_is_late) AS t;
        -- That may have waited for others.
        v_now := greatest(v_now, holdfast.now_v1());
    END IF;
    IF v_is_asked THEN
        SELECT json_agg(json_build_array(a.id, a.token)) INTO v_asked FROM (
            SELECT j.id, j.token FROM holdfast.job AS j WHERE j.ns = p_ns AND j.worker = p_worker AND j.cancel_asked
            UNION ALL
            SELECT j.id, j.token FROM holdfast.lease AS l JOIN holdfast.job AS j ON j.ns = p_ns AND j.id = l.job
            WHERE l.ns = p_ns AND l.worker = p_worker AND l.cancel_asked AND j.token = l.token AND j.worker = p_worker
        ) AS a;
    END IF;

    IF p_repeat AND p_queues IS NOT NULL THEN
        RETURN QUERY
        SELECT NULL::text, s.id, s.task, s.queue, s.payload, s.priority, s.due, s.created, s.run, s.version, s.token, s.headers,
               json_build_object(
                   'state', s.state, 'failures', s.failures, 'lost', s.lost, 'suspect', s.suspect, 'cancel_asked',
                   s.cancel_asked, 'lease_until', s.lease_until, 'lease', s.lease, 'timeout', s.timeout, 'retry', s.retry,
                   'key', s.key, 'tags', s.tags, 'started', s.started, 'progress', s.progress, 'progress_note',
                   s.progress_note, 'reason', s.reason, 'error', s.error, 'result', s.result, 'flow', s.flow)
        FROM holdfast.job AS j JOIN holdfast.jobs AS s ON s.ns = p_ns AND s.id = j.id
        WHERE j.ns = p_ns AND j.worker = p_worker AND j.seq = p_seq;
        IF FOUND THEN
            v_left := 0;
        END IF;
    END IF;
    IF NOT v_registered OR v_is_late THEN
        v_left := 0;
    END IF;

    FOR v_turn IN 1 .. cardinality(v_dues) LOOP
        v_queue := p_queues[v_turn];
        v_due := v_dues[v_turn];
        CONTINUE WHEN v_queue = ANY (v_paused);
        IF v_due <= v_now THEN
            UPDATE holdfast.job AS j SET ready = true
            WHERE j.ns = p_ns AND j.id = ANY (ARRAY(
                SELECT i.id FROM holdfast.job AS i
                WHERE i.ns = p_ns AND i.queue = v_queue AND NOT i.ready AND i.due <= v_now AND i.due > v_due_floor
                ORDER BY i.due LIMIT 2000 FOR NO KEY UPDATE SKIP LOCKED));
            SELECT j.due INTO v_due FROM holdfast.job AS j
            WHERE j.ns = p_ns AND j.queue = v_queue AND NOT j.ready AND j.due > v_due_floor ORDER BY j.due LIMIT 1;
        END IF;
        v_next := least(v_next, CASE WHEN v_due IS NOT NULL THEN greatest(v_due - v_now, 0) END);
        IF v_flows THEN
            IF v_left > 0 THEN
                RETURN QUERY
                SELECT * FROM holdfast.claim_v1(
                    p_ns, p_worker, p_seq, v_queue, p_tasks, v_left, p_lease, v_now, ARRAY(
                        SELECT h.place FROM unnest(v_heads, v_head_queues) AS h(place, name) WHERE h.name = v_queue));
                GET DIAGNOSTICS v_got = ROW_COUNT;
                v_left := v_left - v_got;
                v_head_queues := array_replace(v_head_queues, v_queue, NULL);
            END IF;
            CONTINUE;
        END IF;
        v_floors := coalesce(p_floors -> v_queue, '[[-9223372036854775808, -9223372036854775808, null]]');
        FOR v_place IN 0 .. jsonb_array_length(v_floors) - 1 LOOP
            EXIT WHEN v_left <= 0;
            v_floor := v_floors -> v_place;
            RETURN QUERY
            UPDATE holdfast.job AS j
            SET state = 1, ready = NULL, run = j.run + 1, version = j.version + 1, token = greatest(j.token + 1, v_now),
                worker = p_worker, seq = p_seq, lease_until = v_now + coalesce(j.lease, p_lease), started = NULL,
                reason = NULL, progress = NULL, progress_note = NULL
            WHERE j.ctid = ANY (ARRAY(
                SELECT i.ctid FROM holdfast.job AS i
                WHERE i.ns = p_ns AND i.queue = v_queue AND i.ready AND i.task = ANY (p_tasks)
                  AND NOT EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns)
                  AND (i.priority, coalesce(i.rank, i.due), i.id) > (
                      (v_floor ->> 0)::bigint, (v_floor ->> 1)::bigint,
                      coalesce((v_floor ->> 2)::uuid, '00000000-0000-0000-0000-000000000000'))
                  AND i.priority <= CASE WHEN p_floors ? v_queue THEN (v_floor ->> 0)::bigint ELSE 9223372036854775807 END
                ORDER BY i.priority, coalesce(i.rank, i.due), i.id LIMIT v_left FOR NO KEY UPDATE SKIP LOCKED
            ))
            RETURNING NULL::text, j.id, j.task, j.queue, j.payload, j.priority, j.due, j.created, j.run, j.version, j.token,
                      j.headers,
                      CASE WHEN j.failures > 0 OR j.lost > 0 OR j.suspect OR j.cancel_asked OR j.lease IS NOT NULL
                                OR j.timeout IS NOT NULL OR j.retry IS NOT NULL OR j.key IS NOT NULL OR j.tags IS NOT NULL
                                OR j.error IS NOT NULL OR j.result IS NOT NULL OR j.limit_key IS NOT NULL
                                OR j.fair_key IS NOT NULL OR j.expires IS NOT NULL OR j.halts OR j.after_any
                      THEN json_build_object(
                          'state', j.state, 'failures', j.failures, 'lost', j.lost, 'suspect', j.suspect, 'cancel_asked',
                          j.cancel_asked, 'lease_until', j.lease_until, 'lease', j.lease, 'timeout', j.timeout, 'retry',
                          j.retry, 'key', j.key, 'tags', j.tags, 'error', j.error, 'result', j.result, 'flow',
                          json_strip_nulls(json_build_object(
                              'limit_key', j.limit_key, 'fair_key', j.fair_key, 'rank', j.rank, 'halts', j.halts, 'after_any',
                              j.after_any, 'expires', j.expires))) END;
            GET DIAGNOSTICS v_got = ROW_COUNT;
            v_left := v_left - v_got;
        END LOOP;
    END LOOP;
    v_read := pg_stat_get_xact_tuples_returned('holdfast.job_ready'::regclass) - v_read;
    IF v_is_late THEN
        v_next := 0;
    ELSIF v_flows AND p_queues IS NOT NULL THEN
        v_next := least(v_next, holdfast.opens_v1(p_ns, v_now, p_queues, v_paused, p_tasks, v_left));
    END IF;
    IF v_heads <> '{}' THEN
        IF array_remove(v_head_queues, NULL) <> '{}' THEN
            -- Those of queues that it did not come to.
            v_freed := v_freed || holdfast.free_v1(v_now, ARRAY(
                SELECT h.place FROM unnest(v_heads, v_head_queues) AS h(place, name) WHERE h.name IS NOT NULL));
        END IF;
        v_is_freed := v_left = 0;
    END IF;
    IF v_freed <> '{}' AND NOT v_is_freed THEN
        v_is_freed := EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = ANY (v_freed) AND j.ready);
    END IF;

    priority := v_now;
    due := v_next;
    created := v_read;
    run := v_registered::integer;
    answer := '{}';
    IF num_nulls(v_refused, v_verdicts, v_asked, v_paused_tasks) < 4 OR v_paused <> '{}' OR v_is_freed THEN
        answer := json_build_object(
            'refused', v_refused, 'verdicts', v_verdicts, 'asked', v_asked, 'paused', v_paused, 'paused_tasks',
            v_paused_tasks, 'freed', v_is_freed)::text;
    END IF;
    RETURN NEXT;
END
$$;

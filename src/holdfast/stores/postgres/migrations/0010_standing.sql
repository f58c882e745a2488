-- min-client: 1
-- What idle workers want, kept until they tick again. seq: of the tick, negative once the want stands no longer. until: when
-- it has stood too long, because the worker is silent. pid: the backend that listens on the channel named by ear. One row
-- for each worker, which changes in its place. What is lost in a crash of the server is wanted again by the next tick.
CREATE UNLOGGED TABLE holdfast.standing (
    since bigint NOT NULL,
    until bigint NOT NULL,
    seq bigint NOT NULL,
    lease bigint NOT NULL,
    ns integer NOT NULL,
    pid integer NOT NULL,
    worker text COLLATE "C" NOT NULL,
    ear text NOT NULL,
    queues text[] COLLATE "C" NOT NULL,
    tasks text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, worker),
    FOREIGN KEY (ns, worker) REFERENCES holdfast.worker (ns, id) ON DELETE CASCADE
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Adds one job that is due now, has no key, and an id that was never sent before. If an idle worker would take it, and no
-- job waits that comes first, it is claimed for that one, whose session is told; nobody else need be woken. Gives the
-- store's now, negative if it was handed over so.
-- A worker is passed over if another has its row at this moment; one that is silent, or whose backend is gone, stands no
-- longer. In a transaction that has written already, nobody is looked for: that one may last, and while it does, those whose
-- rows it has cannot tick.
CREATE FUNCTION holdfast.add_lone_v1(
    p_ns integer, p_id uuid, p_task text, p_queue text, p_payload bytea, p_priority bigint, p_tags jsonb, p_lease bigint,
    p_timeout bigint, p_retry bytea, p_headers bytea, p_wake text
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
    v_want holdfast.standing%ROWTYPE;
    v_told text;
    v_is_there boolean;
    v_is_handed boolean := false;
BEGIN
    FOR v_want IN
        SELECT * FROM holdfast.standing AS i
        WHERE i.ns = p_ns AND i.seq > 0 AND p_queue = ANY (i.queues) AND p_task = ANY (i.tasks)
          AND pg_current_xact_id_if_assigned() IS NULL
          AND NOT EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns)
        ORDER BY i.since LIMIT 32
    LOOP
        v_is_there := v_want.until > v_now AND EXISTS (SELECT FROM pg_stat_get_activity(v_want.pid)) AND EXISTS (
            SELECT FROM holdfast.worker AS w WHERE w.ns = p_ns AND w.id = v_want.worker AND w.live_until > v_now);
        EXIT WHEN v_is_there AND (
            EXISTS (SELECT FROM holdfast.queue AS q WHERE q.ns = p_ns AND q.name = p_queue AND q.paused)
            -- The order makes it a walk along the index of ready jobs, whatever the planner thinks is in it.
            OR (SELECT j.id FROM holdfast.job AS j
                WHERE j.ns = p_ns AND j.queue = p_queue AND j.ready AND j.priority <= p_priority
                  AND j.task = ANY (v_want.tasks)
                ORDER BY j.priority, coalesce(j.rank, j.due), j.id LIMIT 1) IS NOT NULL);
        -- Whoever counts leased jobs from now on waits for the commit.
        EXIT WHEN NOT pg_try_advisory_xact_lock_shared(hashtextextended('holdfast.flow', p_ns));
        PERFORM FROM holdfast.standing AS i
        WHERE i.ns = p_ns AND i.worker = v_want.worker AND i.seq = v_want.seq
          AND NOT EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns)
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        UPDATE holdfast.standing SET seq = -v_want.seq WHERE ns = p_ns AND worker = v_want.worker;
        v_is_handed := v_is_there;
        EXIT WHEN v_is_handed;
    END LOOP;
    IF NOT v_is_handed THEN
        INSERT INTO holdfast.job (
            ns, id, task, queue, payload, priority, due, ready, created, tags, lease, timeout, retry, headers)
        VALUES (
            p_ns, p_id, p_task, p_queue, p_payload, p_priority, v_now, true, v_now,
            CASE WHEN p_tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(p_tags)) END,
            p_lease, p_timeout, p_retry, p_headers);
        IF p_wake IS NOT NULL THEN
            PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
        END IF;
        RETURN v_now;
    END IF;
    INSERT INTO holdfast.job (
        ns, id, task, queue, payload, priority, due, ready, created, tags, lease, timeout, retry, headers, state, run,
        version, token, worker, seq, lease_until)
    VALUES (
        p_ns, p_id, p_task, p_queue, p_payload, p_priority, v_now, NULL, v_now,
        CASE WHEN p_tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(p_tags)) END,
        p_lease, p_timeout, p_retry, p_headers, 1, 1, 2, v_now, v_want.worker, -v_want.seq,
        v_now + coalesce(p_lease, v_want.lease));
    IF octet_length(p_payload) < 3000 THEN
        IF num_nulls(p_tags, p_lease, p_timeout, p_retry, p_headers) = 5 THEN
            v_told := json_build_array(
                v_want.worker, v_want.seq, v_now - v_want.since, v_now, v_want.lease, p_id, p_task, p_queue,
                encode(p_payload, 'hex'), p_priority)::text;
        ELSE
            SELECT json_build_array(v_want.worker, v_want.seq, v_now - v_want.since, s)::text INTO v_told
            FROM holdfast.jobs AS s WHERE s.ns = p_ns AND s.id = p_id;
        END IF;
    END IF;
    IF v_told IS NULL OR octet_length(v_told) > 7900 THEN
        v_told := json_build_array(v_want.worker, v_want.seq, v_now - v_want.since)::text;
    END IF;
    PERFORM pg_notify(v_want.ear, v_told);
    RETURN -v_now;
END
$$;

-- A tick of a worker whose want stood, or shall stand. Beside the rows of the tick there are those of jobs that were claimed
-- for the want that stood, whose `answer` is `h`, and one whose `answer` is `s` if this want stands.
CREATE FUNCTION holdfast.tick_standing_v1(
    p_ns integer, p_worker text, p_seq bigint, p_ids uuid[], p_tokens bigint[], p_elapsed bigint[], p_results bytea[],
    p_moves jsonb, p_queues text[], p_tasks text[], p_limit integer, p_lease bigint, p_repeat boolean, p_wake text,
    p_floors jsonb, p_due_floor bigint, p_stood bigint, p_stands bigint, p_ear text, p_pid integer
) RETURNS TABLE (
    answer text, id uuid, task text, queue text, payload bytea, priority bigint, due bigint, created bigint, run integer,
    version integer, token bigint, headers bytea, rest json
) LANGUAGE plpgsql
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
    v_given bigint[] := '{}';
    v_was_standing boolean := false;
    v_rows integer;
BEGIN
    -- A want that does not stand may be fulfilled, also if its row was lost. A repeat ends its own: the answer tells anew.
    IF p_stood IS NOT NULL THEN
        UPDATE holdfast.standing AS s SET seq = -p_stood WHERE s.ns = p_ns AND s.worker = p_worker AND s.seq = p_stood;
        IF NOT FOUND THEN
            v_given := ARRAY[-p_stood];
        END IF;
    END IF;
    IF p_repeat THEN
        -- It may be under way still when this comes.
        PERFORM FROM holdfast.standing AS s WHERE s.ns = p_ns AND s.worker = p_worker FOR NO KEY UPDATE;
        UPDATE holdfast.standing AS s SET seq = -p_seq WHERE s.ns = p_ns AND s.worker = p_worker AND s.seq = p_seq;
        v_was_standing := FOUND;
        v_given := v_given || -p_seq;
    END IF;
    IF v_given <> '{}' AND NOT EXISTS (
        SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.worker = p_worker AND j.seq = ANY (v_given))
    THEN
        v_given := '{}';
    END IF;
    RETURN QUERY
    SELECT * FROM holdfast.tick_v1(
        p_ns, p_worker, p_seq, p_ids, p_tokens, p_elapsed, p_results, p_moves, p_queues, p_tasks,
        CASE WHEN v_given = '{}' THEN p_limit ELSE 0 END, p_lease, p_repeat, p_wake, p_floors, p_due_floor);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_given <> '{}' THEN
        RETURN QUERY
        SELECT CASE WHEN j.seq = -p_stood THEN 'h' END, s.id, s.task, s.queue, s.payload, s.priority, s.due, s.created, s.run,
               s.version, s.token, s.headers,
               json_build_object(
                   'state', s.state, 'failures', s.failures, 'lost', s.lost, 'suspect', s.suspect, 'cancel_asked',
                   s.cancel_asked, 'lease_until', s.lease_until, 'lease', s.lease, 'timeout', s.timeout, 'retry', s.retry,
                   'key', s.key, 'tags', s.tags, 'started', s.started, 'progress', s.progress, 'progress_note',
                   s.progress_note, 'reason', s.reason, 'error', s.error, 'result', s.result, 'flow', s.flow)
        FROM holdfast.job AS j JOIN holdfast.jobs AS s ON s.ns = p_ns AND s.id = j.id
        WHERE j.ns = p_ns AND j.worker = p_worker AND j.seq = ANY (v_given);
    ELSIF p_ear IS NOT NULL AND v_rows <= p_limit AND NOT (p_repeat AND v_rows > 1) THEN
        INSERT INTO holdfast.standing AS s (ns, worker, seq, since, until, lease, pid, ear, queues, tasks)
        SELECT p_ns, p_worker, p_seq, n, n + p_stands, p_lease, p_pid, p_ear, p_queues, p_tasks
        FROM holdfast.now_v1() AS n JOIN holdfast.worker AS w ON w.ns = p_ns AND w.id = p_worker AND w.live_until > n
        ON CONFLICT (ns, worker) DO UPDATE
        SET seq = excluded.seq, since = excluded.since, until = excluded.until, lease = excluded.lease, pid = excluded.pid,
            ear = excluded.ear, queues = excluded.queues, tasks = excluded.tasks
        WHERE abs(s.seq) < excluded.seq OR s.seq = excluded.seq OR v_was_standing;
        IF FOUND THEN
            answer := 's';
            RETURN NEXT;
        END IF;
    END IF;
END
$$;

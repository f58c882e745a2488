-- min-client: 1
-- What takes events along: ticks, moves in transactions of others, schedules. Old clients go on with what they know.

-- Whether the attempt has ended: one more success of it is a repeat, whatever events it has.
CREATE FUNCTION holdfast.has_ended_v1(p_ns integer, p_job uuid, p_token bigint) RETURNS boolean LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM holdfast.attempt WHERE ns = p_ns AND job = p_job AND token = p_token)
        OR EXISTS (SELECT FROM holdfast.done WHERE ns = p_ns AND id = p_job AND token = p_token AND ran_by IS NOT NULL)
$$;

-- A tick whose moves may have events: those of the moves that it accepts are appended, if they are no repeats.
CREATE FUNCTION holdfast.tick_events_v1(
    p_ns integer, p_worker text, p_seq bigint, p_ids uuid[], p_tokens bigint[], p_elapsed bigint[], p_results bytea[],
    p_moves jsonb, p_queues text[], p_tasks text[], p_limit integer, p_lease bigint, p_repeat boolean, p_wake text,
    p_floors jsonb, p_due_floor bigint, p_stood bigint, p_stands bigint, p_ear text, p_pid integer
) RETURNS TABLE (
    answer text, id uuid, task text, queue text, payload bytea, priority bigint, due bigint, created bigint, run integer,
    version integer, token bigint, headers bytea, rest json
) LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_ended bigint[] := ARRAY(
        SELECT m.n FROM jsonb_array_elements(p_moves) WITH ORDINALITY AS m(move, n)
        WHERE holdfast.has_ended_v1(p_ns, (m.move ->> 'job')::uuid, (m.move ->> 'token')::bigint));
    v_rows refcursor;
    v_verdicts text := '';
    v_now bigint;
    v_events jsonb;
BEGIN
    IF p_stood IS NULL AND p_ear IS NULL THEN
        OPEN v_rows FOR SELECT * FROM holdfast.tick_v1(
            p_ns, p_worker, p_seq, p_ids, p_tokens, p_elapsed, p_results, p_moves, p_queues, p_tasks, p_limit, p_lease,
            p_repeat, p_wake, p_floors, p_due_floor);
    ELSE
        OPEN v_rows FOR SELECT * FROM holdfast.tick_standing_v1(
            p_ns, p_worker, p_seq, p_ids, p_tokens, p_elapsed, p_results, p_moves, p_queues, p_tasks, p_limit, p_lease,
            p_repeat, p_wake, p_floors, p_due_floor, p_stood, p_stands, p_ear, p_pid);
    END IF;
    LOOP
        FETCH v_rows INTO answer, id, task, queue, payload, priority, due, created, run, version, token, headers, rest;
        EXIT WHEN NOT FOUND;
        IF answer LIKE '{%' THEN
            v_verdicts := coalesce(answer::jsonb ->> 'verdicts', '');
            v_now := priority;
        END IF;
        RETURN NEXT;
    END LOOP;
    CLOSE v_rows;
    SELECT jsonb_agg(e.event ORDER BY m.n, e.n) INTO v_events
    FROM (
        SELECT i.move, i.n,
               row_number() OVER (
                   PARTITION BY i.move -> 'job', i.move -> 'token', i.move -> 'outcome' ORDER BY i.n) AS turn
        FROM jsonb_array_elements(p_moves) WITH ORDINALITY AS i(move, n)
        WHERE substr(v_verdicts, i.n::integer, 1) = 'a' AND i.n <> ALL (v_ended)
    ) AS m
    CROSS JOIN LATERAL jsonb_array_elements(m.move -> 'events') WITH ORDINALITY AS e(event, n)
    WHERE m.turn = 1;
    IF v_events IS NOT NULL THEN
        PERFORM holdfast.append_json_v1(p_ns, v_now, v_events, NULL);
    END IF;
END
$$;

-- One move as part of the caller's transaction, with its events.
CREATE FUNCTION holdfast.move_in_v2(p_ns integer, p_worker text, p_move jsonb, p_wake text) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_has_ended boolean := holdfast.has_ended_v1(p_ns, (p_move ->> 'job')::uuid, (p_move ->> 'token')::bigint);
BEGIN
    IF NOT holdfast.move_in_v1(p_ns, p_worker, p_move, p_wake) THEN
        RETURN false;
    END IF;
    IF p_move ? 'events' AND NOT v_has_ended THEN
        PERFORM holdfast.append_json_v1(p_ns, NULL, p_move -> 'events', NULL);
    END IF;
    RETURN true;
END
$$;

-- Writes schedules; the events of those that were written, and are no repeats, are appended, `of` counting from 1.
CREATE FUNCTION holdfast.schedule_write_v2(
    p_ns integer, p_lock text, p_owner text, p_token bigint, p_names text[], p_versions bigint[], p_marks text[],
    p_afters text[], p_looks bigint[], p_jobs uuid[], p_waits boolean[], p_definitions bytea[], p_states bytea[],
    p_fired jsonb, p_events jsonb, p_wake text
) RETURNS integer[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_unwritten bigint[];
    v_refused integer[];
    v_events jsonb;
BEGIN
    IF p_events IS NOT NULL THEN
        v_unwritten := ARRAY(
            SELECT u.place FROM unnest(p_names, p_versions, p_marks) WITH ORDINALITY AS u(name, version, mark, place)
            WHERE EXISTS (
                SELECT FROM holdfast.schedule AS s
                WHERE s.ns = p_ns AND s.name = u.name AND s.version = u.version + 1 AND s.mark = u.mark OFFSET 0));
    END IF;
    v_refused := holdfast.schedule_write_v1(
        p_ns, p_lock, p_owner, p_token, p_names, p_versions, p_marks, p_afters, p_looks, p_jobs, p_waits, p_definitions,
        p_states, p_fired, p_wake);
    IF v_refused IS NOT NULL AND p_events IS NOT NULL THEN
        v_unwritten := v_unwritten || v_refused::bigint[];
        SELECT jsonb_agg(e.event ORDER BY e.n) INTO v_events
        FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e(event, n)
        WHERE (e.event ->> 'of')::bigint <> ALL (v_unwritten);
        IF v_events IS NOT NULL THEN
            PERFORM holdfast.append_json_v1(p_ns, NULL, v_events, NULL);
        END IF;
    END IF;
    RETURN v_refused;
END
$$;

-- One schedule as part of the caller's transaction, with its jobs and events; false also if the lock is not held under the
-- term. The lock's row stays free, so that it can be renewed, or taken when it has ended: of two who write, the version
-- decides. A snapshot that is too old to tell whether the lock was renewed is a serialization failure.
CREATE FUNCTION holdfast.write_in_v1(p_ns integer, p_write jsonb, p_wake text) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    w record;
    v_until bigint;
    v_now bigint;
    v_is_written boolean;
BEGIN
    SELECT * INTO w FROM jsonb_to_record(p_write) AS r(
        lock text, owner text, token bigint, name text, version bigint, mark text, after text, look_at bigint, job uuid,
        waits boolean, definition text, state text, fired jsonb, events jsonb);
    SELECT k.until INTO v_until FROM holdfast.lock AS k
    WHERE k.ns = p_ns AND k.name = w.lock AND k.owner = w.owner AND k.token = w.token;
    v_now := holdfast.now_v1();
    IF v_until IS NULL OR v_until <= v_now THEN
        IF v_until IS NOT NULL AND current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'lock % had ended when this transaction began, or was renewed since', w.lock
                USING ERRCODE = 'serialization_failure';
        END IF;
        RETURN false;
    END IF;
    v_is_written := EXISTS (
        SELECT FROM holdfast.schedule AS s
        WHERE s.ns = p_ns AND s.name = w.name AND s.version = w.version + 1 AND s.mark = w.mark);
    IF holdfast.schedule_put_v1(
        p_ns, v_now, ARRAY[w.name], ARRAY[w.version], ARRAY[w.mark], ARRAY[w.after], ARRAY[w.look_at], ARRAY[w.job],
        ARRAY[w.waits], ARRAY[decode(w.definition, 'hex')], ARRAY[decode(w.state, 'hex')], w.fired) <> '{}'
    THEN
        RETURN false;
    END IF;
    IF w.events IS NOT NULL AND NOT v_is_written THEN
        PERFORM holdfast.append_json_v1(p_ns, v_now, w.events, NULL);
    END IF;
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    RETURN true;
END
$$;

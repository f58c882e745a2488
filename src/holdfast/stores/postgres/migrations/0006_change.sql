-- min-client: 1
-- Prolongs leases; each job is asked for once. Gives one letter for each, in order: h held, c held and asked to stop,
-- l lost. Asks for no lock of the job, which its own handler's transaction may be ending just now, and for long. A
-- reclaim locks the row in lease.
CREATE FUNCTION holdfast.extend_v1(
    p_ns integer, p_worker text, p_jobs uuid[], p_tokens bigint[], p_leases bigint[], p_elapsed bigint[],
    p_progress double precision[], p_notes text[]
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
    v_answer text;
BEGIN
    INSERT INTO holdfast.lease AS l (ns, job, token, worker, until, started, running, progress, progress_note)
    SELECT p_ns, e.job, e.token, p_worker, greatest(s.lease_until, v_now + e.lease),
           coalesce(s.started, v_now - e.elapsed), e.elapsed IS NOT NULL OR s.state = 2,
           CASE WHEN e.progress IS NULL AND e.note IS NULL THEN s.progress ELSE e.progress END,
           CASE WHEN e.progress IS NULL AND e.note IS NULL THEN s.progress_note ELSE e.note END
    FROM unnest(p_jobs, p_tokens, p_leases, p_elapsed, p_progress, p_notes) AS e(job, token, lease, elapsed, progress, note)
    CROSS JOIN LATERAL (SELECT * FROM holdfast.live WHERE ns = p_ns AND id = e.job OFFSET 0) AS s
    WHERE s.token = e.token AND s.worker = p_worker AND s.lease_until > v_now
    ON CONFLICT (ns, job, token) DO UPDATE
    SET until = greatest(l.until, excluded.until), started = coalesce(l.started, excluded.started),
        running = l.running OR excluded.running, progress = excluded.progress, progress_note = excluded.progress_note;
    SELECT string_agg(
        CASE WHEN s.lease_until IS NULL OR s.lease_until <= v_now THEN 'l' WHEN s.cancel_asked THEN 'c' ELSE 'h' END,
        '' ORDER BY e.n) INTO v_answer
    FROM unnest(p_jobs, p_tokens) WITH ORDINALITY AS e(job, token, n)
    LEFT JOIN LATERAL (
        SELECT lease_until, cancel_asked FROM holdfast.live
        WHERE ns = p_ns AND id = e.job AND token = e.token AND worker = p_worker OFFSET 0
    ) AS s ON true;
    RETURN v_answer;
END
$$;

-- Puts a job that is not leased from one table into the other with its changed fields, or leaves it where it is.
CREATE FUNCTION holdfast.place_v1(s holdfast.jobs, p_was smallint, p_was_queue text, p_now bigint) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_part oid;
BEGIN
    IF p_was IN (0, 5) AND s.state IN (0, 5) THEN
        UPDATE holdfast.job
        SET state = s.state, version = s.version, queue = s.queue, priority = s.priority, due = s.due,
            ready = CASE WHEN s.gate IS DISTINCT FROM 'after' THEN s.due <= p_now END,
            gate = CASE WHEN s.gate = 'after' THEN s.gate END, tags = s.tags, failures = s.failures, lost = s.lost,
            suspect = s.suspect, reason = s.reason, key = s.key
        WHERE ns = s.ns AND id = s.id;
        RETURN;
    END IF;
    IF p_was IN (0, 5) THEN
        DELETE FROM holdfast.job WHERE ns = s.ns AND id = s.id;
    ELSE
        DELETE FROM holdfast.done WHERE ns = s.ns AND id = s.id RETURNING tableoid INTO v_part;
        INSERT INTO holdfast.tally (ns, queue, state, part, jobs) VALUES (s.ns, p_was_queue, p_was, v_part, -1);
    END IF;
    IF s.state IN (0, 5) THEN
        IF s.held OR EXISTS (SELECT FROM holdfast.link AS l WHERE l.ns + 0 = s.ns AND l.waiter = s.id AND l.state IS NULL) THEN
            s.gate := 'after';
        END IF;
        INSERT INTO holdfast.job (
            ns, id, task, queue, payload, state, ready, priority, due, created, run, failures, lost, suspect, version, token,
            lease, timeout, retry, headers, key, tags, started, cancel_asked, progress, progress_note, reason, error,
            limit_key, fair_key, rank, sequence, place, halts, after_any, held, expires, unmet, gate)
        VALUES (
            s.ns, s.id, s.task, s.queue, s.payload, s.state, CASE WHEN s.gate IS NULL THEN s.due <= p_now END, s.priority,
            s.due, s.created, s.run, s.failures, s.lost, s.suspect, s.version, s.token, s.lease, s.timeout, s.retry,
            s.headers, s.key, s.tags, s.started, s.cancel_asked, s.progress, s.progress_note, s.reason, s.error, s.limit_key,
            s.fair_key, s.rank, s.sequence, s.place, s.halts, s.after_any, s.held, s.expires, s.unmet, s.gate);
    ELSE
        INSERT INTO holdfast.done (
            ns, id, task, queue, payload, state, priority, due, created, run, failures, lost, suspect, version, token, lease,
            timeout, retry, headers, key, tags, started, finished, cancel_asked, progress, progress_note, reason, error,
            result, limit_key, fair_key, rank, sequence, place, halts, after_any, held, expires, unmet)
        VALUES (
            s.ns, s.id, s.task, s.queue, s.payload, s.state, s.priority, s.due, s.created, s.run, s.failures, s.lost,
            s.suspect, s.version, s.token, s.lease, s.timeout, s.retry, s.headers, s.key, s.tags, s.started, s.finished,
            s.cancel_asked, s.progress, s.progress_note, s.reason, s.error, s.result, s.limit_key, s.fair_key, s.rank,
            s.sequence, s.place, s.halts, s.after_any, s.held, s.expires, s.unmet)
        RETURNING tableoid INTO v_part;
        INSERT INTO holdfast.tally (ns, queue, state, part, jobs) VALUES (s.ns, s.queue, s.state, v_part, 1);
    END IF;
END
$$;

-- An edit: null if version or state do not fit, {"held": job} if its key is another's, else {"job": …}.
CREATE FUNCTION holdfast.edit_v1(p_ns integer, p_edit jsonb, p_wake text) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
    e record;
    s holdfast.jobs;
    v_was smallint;
    v_was_queue text;
    v_old_key text;
    v_key text;
    v_holder uuid;
    v_note holdfast.note;
BEGIN
    SELECT * INTO e FROM jsonb_to_record(p_edit) AS r(
        job uuid, version integer, "from" smallint[], "to" smallint, queue text, priority bigint, due bigint, delay bigint,
        tags jsonb, failures integer, lost integer, suspect boolean, reason text, key text, key_ttl bigint,
        ask_cancel boolean);
    PERFORM FROM holdfast.job WHERE ns = p_ns AND id = e.job FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM FROM holdfast.done WHERE ns = p_ns AND id = e.job FOR NO KEY UPDATE;
    END IF;
    SELECT * INTO s FROM holdfast.jobs WHERE ns = p_ns AND id = e.job;
    IF s.version IS DISTINCT FROM e.version THEN
        RETURN NULL;
    END IF;
    IF e.ask_cancel THEN
        IF s.worker IS NULL THEN
            RETURN NULL;
        END IF;
        INSERT INTO holdfast.lease AS l (ns, job, token, worker, until, started, running, cancel_asked, changes)
        VALUES (p_ns, s.id, s.token, s.worker, s.lease_until, s.started, s.state = 2, true, 1)
        ON CONFLICT (ns, job, token) DO UPDATE SET cancel_asked = true, changes = l.changes + 1;
        s.cancel_asked := true;
        s.version := s.version + 1;
    ELSE
        IF s.worker IS NOT NULL OR s.state <> ALL (e."from") THEN
            RETURN NULL;
        END IF;
        v_was := s.state;
        v_was_queue := s.queue;
        v_note := (p_ns, s.id, false, NULL, s.queue, s.task, s.limit_key, s.sequence, NULL);
        v_old_key := s.key;
        s.state := coalesce(e."to", s.state);
        IF e.key IS NOT NULL OR (v_was NOT IN (0, 5) AND s.state IN (0, 5) AND s.key IS NOT NULL) THEN
            v_key := coalesce(e.key, s.key);
            -- A replayed job may still have its key; the lock keeps it from whoever takes it for free meanwhile.
            PERFORM FROM holdfast.key AS k WHERE k.ns = p_ns AND k.key = v_key AND k.job = s.id FOR UPDATE;
            IF e.key IS NOT NULL OR NOT FOUND THEN
                v_holder := holdfast.take_key_v1(p_ns, v_key, s.id, CASE WHEN e.key IS NULL THEN 0 ELSE e.key_ttl END, v_now);
                IF v_holder IS NOT NULL THEN
                    RETURN jsonb_build_object('held', v_holder)::text;
                END IF;
            END IF;
            s.key := v_key;
            IF v_old_key <> v_key THEN
                DELETE FROM holdfast.key AS k WHERE k.ns = p_ns AND k.key = v_old_key AND k.job = s.id;
            END IF;
        END IF;
        s.queue := coalesce(e.queue, s.queue);
        s.priority := coalesce(e.priority, s.priority);
        s.due := coalesce(e.due, v_now + e.delay, s.due);
        s.failures := coalesce(e.failures, s.failures);
        s.lost := coalesce(e.lost, s.lost);
        s.suspect := coalesce(e.suspect, s.suspect);
        s.reason := coalesce(e.reason, s.reason);
        s.version := s.version + 1;
        IF e.tags IS NOT NULL THEN
            s.tags := ARRAY(SELECT jsonb_array_elements_text(e.tags));
        END IF;
        IF v_was NOT IN (0, 5) AND s.state IN (0, 5) THEN
            s.finished := NULL;
            s.result := NULL;
            s.cancel_asked := false;
        ELSIF v_was IN (0, 5) AND s.state NOT IN (0, 5) THEN
            s.finished := v_now;
            DELETE FROM holdfast.key AS k
            WHERE k.ns = p_ns AND k.key = s.key AND k.job = s.id AND (k.until IS NULL OR k.until <= v_now);
        END IF;
        PERFORM holdfast.place_v1(s, v_was, v_was_queue, v_now);
        -- One that stays in the dead letter queue ends nothing.
        IF (v_was IN (0, 5) OR s.state <> v_was) AND holdfast.tell_v1(p_ns, v_now, ARRAY[v_note]) THEN
            SELECT * INTO s FROM holdfast.jobs WHERE ns = p_ns AND id = e.job;
        END IF;
    END IF;
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    RETURN jsonb_build_object('job', to_jsonb(s))::text;
END
$$;

-- Removes what is kept beside jobs that are no longer there.
CREATE FUNCTION holdfast.forget_beside_v1(p_ns integer, p_ids uuid[]) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM holdfast.attempt AS a
    WHERE a.ns = p_ns AND a.job = ANY (p_ids)
      AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = a.job);
    DELETE FROM holdfast.key AS k
    WHERE k.ns = p_ns AND k.job = ANY (p_ids)
      AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = k.job);
    DELETE FROM holdfast.link AS l
    WHERE l.ns = p_ns AND l.waiter = ANY (p_ids)
      AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = l.waiter);
END
$$;

-- Removes jobs that are not leased, with all that is kept beside them; how many were leased and stay.
-- One that ends meanwhile stays. One that is replayed meanwhile is found in the next round.
CREATE FUNCTION holdfast.forget_v1(p_ns integer, p_ids uuid[]) RETURNS integer LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
DECLARE
    v_stay uuid[];
    v_notes holdfast.note[] := holdfast.ended_v1(p_ns, p_ids);
BEGIN
    LOOP
        DELETE FROM holdfast.job WHERE ns = p_ns AND id = ANY (p_ids) AND worker IS NULL;
        v_stay := ARRAY(SELECT id FROM holdfast.job WHERE ns = p_ns AND id = ANY (p_ids));
        WITH gone AS (
            DELETE FROM holdfast.done WHERE ns = p_ns AND id = ANY (p_ids) AND id <> ALL (v_stay)
            RETURNING queue, state, tableoid AS part
        )
        INSERT INTO holdfast.tally (ns, queue, state, part, jobs)
        SELECT p_ns, queue, state, part, -count(*) FROM gone GROUP BY queue, state, part;
        EXIT WHEN NOT EXISTS (SELECT FROM holdfast.job WHERE ns = p_ns AND id = ANY (p_ids) AND id <> ALL (v_stay));
    END LOOP;
    PERFORM holdfast.forget_beside_v1(p_ns, ARRAY(SELECT i.id FROM unnest(p_ids) AS i(id) WHERE i.id <> ALL (v_stay)));
    PERFORM holdfast.tell_v1(p_ns, holdfast.now_v1(), v_notes);
    RETURN cardinality(v_stay);
END
$$;

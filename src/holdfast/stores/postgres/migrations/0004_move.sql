-- min-client: 1
-- Whether a move that no longer applies is a repeat; a late one is remembered as superseded.
CREATE FUNCTION holdfast.late_v1(
    p_ns integer, p_worker text, p_job uuid, p_token bigint, p_outcome text, p_if_expired boolean
) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    v_attempt record;
BEGIN
    SELECT worker, coalesce(closer, worker) AS closer, CASE outcome WHEN 'superseded' THEN 'lost' ELSE outcome END AS told
    INTO v_attempt FROM holdfast.attempt WHERE ns = p_ns AND job = p_job AND token = p_token;
    IF NOT FOUND THEN
        RETURN p_outcome = 'success' AND EXISTS (
            SELECT FROM holdfast.done WHERE ns = p_ns AND id = p_job AND token = p_token AND ran_by = p_worker);
    END IF;
    IF v_attempt.told = p_outcome AND v_attempt.closer = p_worker THEN
        RETURN true;
    END IF;
    IF v_attempt.told = 'lost' AND v_attempt.worker = p_worker AND NOT p_if_expired THEN
        UPDATE holdfast.attempt SET outcome = 'superseded' WHERE ns = p_ns AND job = p_job AND token = p_token;
    END IF;
    RETURN false;
END
$$;

-- One move: whether it was accepted. "from" are the states from which its path may be gone, "to" is its end.
CREATE FUNCTION holdfast.move_v1(p_ns integer, p_worker text, p_now bigint, p_move jsonb) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    m record;
    j holdfast.job%ROWTYPE;
    l holdfast.lease%ROWTYPE;
    v_due bigint;
    v_part oid;
BEGIN
    SELECT * INTO m FROM jsonb_to_record(p_move) AS r(
        job uuid, token bigint, "from" smallint[], "to" smallint, outcome text, elapsed bigint, delay bigint,
        failures integer, lost integer, suspect boolean, reason text, error text, result text, if_expired boolean,
        children jsonb);
    -- A reclaim does not wait: whoever has the row is just ending the attempt. Nor does a start, which only the lease
    -- needs to know: its own handler may be ending the attempt in a transaction that stays open for long.
    IF m.if_expired THEN
        SELECT * INTO j FROM holdfast.job WHERE ns = p_ns AND id = m.job FOR UPDATE SKIP LOCKED;
    ELSIF m.outcome IS NULL THEN
        SELECT * INTO j FROM holdfast.job WHERE ns = p_ns AND id = m.job;
    ELSE
        SELECT * INTO j FROM holdfast.job WHERE ns = p_ns AND id = m.job FOR UPDATE;
    END IF;
    IF j.worker IS NOT NULL AND j.token = m.token THEN
        IF m.if_expired THEN
            -- Waits for a heartbeat that is just prolonging the lease, and keeps the next one waiting.
            INSERT INTO holdfast.lease AS t (ns, job, token, worker, until, started)
            VALUES (p_ns, m.job, m.token, j.worker, j.lease_until, j.started)
            ON CONFLICT (ns, job, token) DO UPDATE SET worker = t.worker RETURNING * INTO l;
        ELSE
            SELECT * INTO l FROM holdfast.lease WHERE ns = p_ns AND job = m.job AND token = m.token;
        END IF;
        IF l.job IS NOT NULL THEN
            j.lease_until := l.until;
            j.started := l.started;
            j.version := j.version + l.changes;
            j.cancel_asked := j.cancel_asked OR l.cancel_asked;
            j.progress := l.progress;
            j.progress_note := l.progress_note;
            IF l.running THEN
                j.state := 2;
            END IF;
        END IF;
    END IF;
    IF j.worker IS NULL OR j.token <> m.token OR j.state <> ALL (m."from")
        OR (CASE WHEN m.if_expired THEN j.lease_until > p_now ELSE j.worker <> p_worker END)
        OR (m.outcome IS NULL AND j.lease_until <= p_now)
    THEN
        IF m.outcome IS NULL THEN
            RETURN j.token = m.token AND j.worker = p_worker AND j.state = 2 AND cardinality(m."from") > 0
                AND j.worker IS NOT NULL;
        END IF;
        RETURN holdfast.late_v1(p_ns, p_worker, m.job, m.token, m.outcome, m.if_expired);
    END IF;
    j.started := coalesce(j.started, p_now - m.elapsed);
    IF m.outcome IS NULL THEN
        INSERT INTO holdfast.lease AS t (ns, job, token, worker, until, started, changes, running)
        VALUES (p_ns, m.job, m.token, j.worker, j.lease_until, coalesce(j.started, p_now), 1, true)
        ON CONFLICT (ns, job, token) DO UPDATE
        SET running = true, started = coalesce(t.started, excluded.started), changes = t.changes + 1;
        -- If that waited for a reclaim, the job is gone by now.
        IF NOT EXISTS (
            SELECT FROM holdfast.job WHERE ns = p_ns AND id = m.job AND token = m.token AND worker = p_worker)
        THEN
            RETURN false;
        END IF;
    ELSE
        INSERT INTO holdfast.attempt (ns, job, token, run, worker, closer, started, finished, outcome, reason, error)
        VALUES (p_ns, m.job, m.token, j.run, j.worker, nullif(p_worker, j.worker), j.started, p_now, m.outcome,
                m.reason, m.error);
        IF m."to" IN (0, 5) THEN
            v_due := coalesce(p_now + m.delay, j.due);
            UPDATE holdfast.job
            SET state = m."to", version = j.version + 1, due = v_due, ready = v_due <= p_now, worker = NULL, seq = NULL,
                lease_until = NULL, started = j.started, cancel_asked = j.cancel_asked, progress = j.progress,
                progress_note = j.progress_note, failures = m.failures, lost = m.lost, suspect = m.suspect,
                reason = m.reason, error = m.error, result = decode(m.result, 'hex')
            WHERE ns = p_ns AND id = m.job;
        ELSE
            DELETE FROM holdfast.job WHERE ns = p_ns AND id = m.job;
            INSERT INTO holdfast.done (
                ns, id, task, queue, payload, state, priority, due, created, run, failures, lost, suspect, version, token,
                lease, timeout, retry, headers, key, tags, started, finished, cancel_asked, progress, progress_note,
                reason, error, result, limit_key, fair_key, rank, sequence, place, halts, after_any, expires, unmet)
            VALUES (
                p_ns, j.id, j.task, j.queue, j.payload, m."to", j.priority, j.due, j.created, j.run, m.failures, m.lost,
                m.suspect, j.version + 1, j.token, j.lease, j.timeout, j.retry, j.headers, j.key, j.tags, j.started,
                p_now, j.cancel_asked, j.progress, j.progress_note, m.reason, m.error, decode(m.result, 'hex'),
                j.limit_key, j.fair_key, j.rank, j.sequence, j.place, j.halts, j.after_any, j.expires, j.unmet)
            RETURNING tableoid INTO v_part;
            INSERT INTO holdfast.tally (ns, queue, state, part, jobs) VALUES (p_ns, j.queue, m."to", v_part, 1);
            IF j.key IS NOT NULL THEN
                DELETE FROM holdfast.key WHERE ns = p_ns AND key = j.key AND job = j.id
                    AND (until IS NULL OR until <= p_now);
            END IF;
        END IF;
    END IF;
    IF m.children IS NOT NULL THEN
        PERFORM holdfast.add_json_v1(p_ns, p_now, m.children, NULL);
    END IF;
    RETURN true;
END
$$;

-- Fails if somebody keeps others from writing to whole tables, as who makes an index does: nothing is to be said then of any
-- one job.
CREATE FUNCTION holdfast.reach_v1() RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    LOCK TABLE ONLY holdfast.job, ONLY holdfast.lease, ONLY holdfast.done, ONLY holdfast.attempt, ONLY holdfast.key,
        ONLY holdfast.tally IN ROW EXCLUSIVE MODE;
END
$$;

-- Moves in order, as "aarr…": accepted or refused. A job that somebody else has locked for long is refused alone.
CREATE FUNCTION holdfast.moves_v1(p_ns integer, p_worker text, p_now bigint, p_moves jsonb) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    m jsonb;
    v_verdicts text := '';
    v_accepted boolean;
    v_keys text[] := ARRAY(
        SELECT k.key #>> '{}' FROM jsonb_path_query(p_moves, '$[*].children[*].key ? (@ != null)') AS k(key));
BEGIN
    BEGIN
        -- In one order, so that two such batches do not wait for each other.
        PERFORM FROM holdfast.job
        WHERE ns = p_ns AND id IN (
            SELECT (e.move ->> 'job')::uuid FROM jsonb_array_elements(p_moves) AS e(move)
            WHERE NOT (e.move ->> 'if_expired')::boolean AND e.move ->> 'outcome' IS NOT NULL)
        ORDER BY id FOR UPDATE;
        IF cardinality(v_keys) > 1 THEN
            PERFORM holdfast.keep_keys_v1(p_ns, v_keys, p_now);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM set_config('lock_timeout', '10ms', true);
    END;
    FOR m IN SELECT e.move FROM jsonb_array_elements(p_moves) WITH ORDINALITY AS e(move, n) ORDER BY e.n LOOP
        BEGIN
            v_accepted := holdfast.move_v1(p_ns, p_worker, p_now, m);
        EXCEPTION WHEN lock_not_available THEN
            PERFORM holdfast.reach_v1();
            v_accepted := false;
        END;
        v_verdicts := v_verdicts || CASE WHEN v_accepted THEN 'a' ELSE 'r' END;
    END LOOP;
    IF cardinality(v_keys) > 1 THEN
        PERFORM holdfast.free_keys_v1(p_ns, v_keys);
    END IF;
    RETURN v_verdicts;
END
$$;

-- One move as part of the caller's transaction. With "quiet" it wakes others only if it may make room for jobs.
CREATE FUNCTION holdfast.move_in_v1(p_ns integer, p_worker text, p_move jsonb, p_wake text) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_detail text;
    v_flows boolean;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        BEGIN
            PERFORM FROM holdfast.job WHERE ns = p_ns AND id = (p_move ->> 'job')::uuid FOR UPDATE;
        EXCEPTION WHEN serialization_failure THEN
            -- Only another attempt changes the row after this snapshot. What SERIALIZABLE finds by itself has a detail.
            GET STACKED DIAGNOSTICS v_detail = PG_EXCEPTION_DETAIL;
            IF v_detail <> '' THEN
                RAISE;
            END IF;
            RETURN false;
        END;
    END IF;
    IF NOT holdfast.move_v1(p_ns, p_worker, holdfast.now_v1(), p_move) THEN
        RETURN false;
    END IF;
    -- Only now: whoever began to use flow before this had the job's row may have settled without seeing that it ends.
    v_flows := EXISTS (SELECT FROM holdfast.flowing WHERE ns = p_ns);
    IF p_wake IS NOT NULL AND (v_flows OR NOT p_move ? 'quiet') THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    -- Settled by the next tick. An old snapshot does not tell whether anybody waits for that.
    IF p_move ->> 'outcome' IS NOT NULL AND (v_flows OR current_setting('transaction_isolation') <> 'read committed') THEN
        PERFORM holdfast.note_v1(p_ns, holdfast.ended_v1(p_ns, ARRAY[(p_move ->> 'job')::uuid]));
    END IF;
    RETURN true;
END
$$;

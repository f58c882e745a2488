-- min-client: 1
-- Whether a job holds a key that says it is its own. The answer lasts while the caller has the key's row locked.
CREATE FUNCTION holdfast.holder_v1(p_ns integer, p_job uuid, p_until bigint, p_now bigint) RETURNS boolean
LANGUAGE sql VOLATILE
AS $$
    SELECT EXISTS (SELECT FROM holdfast.job WHERE ns = p_ns AND id = p_job)
        OR (coalesce(p_until > p_now, false) AND EXISTS (SELECT FROM holdfast.done WHERE ns = p_ns AND id = p_job))
$$;

-- Takes a key for a job if nobody holds it; else the job that does.
CREATE FUNCTION holdfast.take_key_v1(p_ns integer, p_key text, p_job uuid, p_ttl bigint, p_now bigint) RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    v_until bigint := CASE WHEN p_ttl > 0 THEN p_now + p_ttl END;
    v_key holdfast.key%ROWTYPE;
    v_holder uuid;
BEGIN
    LOOP
        INSERT INTO holdfast.key (ns, key, job, until) VALUES (p_ns, p_key, p_job, v_until) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        -- Without a lock: the end of the holder would wait for it as long as this transaction stays open.
        SELECT k.job INTO v_holder FROM holdfast.key AS k
        WHERE k.ns = p_ns AND k.key = p_key AND k.job <> p_job AND holdfast.holder_v1(p_ns, k.job, k.until, p_now);
        IF FOUND THEN
            RETURN v_holder;
        END IF;
        SELECT * INTO v_key FROM holdfast.key WHERE ns = p_ns AND key = p_key FOR UPDATE;
        IF FOUND THEN
            IF v_key.job <> p_job AND holdfast.holder_v1(p_ns, v_key.job, v_key.until, p_now) THEN
                RETURN v_key.job;
            END IF;
            UPDATE holdfast.key SET job = p_job, until = v_until WHERE ns = p_ns AND key = p_key;
            RETURN NULL;
        END IF;
    END LOOP;
END
$$;

-- Takes those of several keys that nobody holds, in one order, so that two such calls do not wait for each other. Until a job
-- gets one it belongs to none.
CREATE FUNCTION holdfast.keep_keys_v1(p_ns integer, p_keys text[], p_now bigint) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    v_key text;
BEGIN
    FOR v_key IN SELECT DISTINCT k.key FROM unnest(p_keys) AS k(key) WHERE k.key IS NOT NULL ORDER BY k.key LOOP
        PERFORM holdfast.take_key_v1(p_ns, v_key, '00000000-0000-0000-0000-000000000000', NULL, p_now);
    END LOOP;
END
$$;

-- Lets those keys go that no job got.
CREATE FUNCTION holdfast.free_keys_v1(p_ns integer, p_keys text[]) RETURNS void LANGUAGE sql
AS $$
    DELETE FROM holdfast.key
    WHERE ns = p_ns AND key = ANY (p_keys) AND job = '00000000-0000-0000-0000-000000000000'
$$;

-- What stands where a job was to be added, as one element of the answer.
CREATE FUNCTION holdfast.stood_v1(
    p_ns integer, p_n integer, p_id uuid, p_task text, p_queue text, p_payload bytea, p_by text
) RETURNS jsonb LANGUAGE sql VOLATILE
AS $$
    SELECT jsonb_build_object(
        'n', p_n, 'job', to_jsonb(s),
        'conflict', CASE WHEN s.task <> p_task OR s.payload <> p_payload OR (p_by = 'id' AND s.queue <> p_queue)
                    THEN p_by END)
    FROM holdfast.jobs AS s WHERE s.ns = p_ns AND s.id = p_id
$$;

-- Raises a serialization failure if one of the ids belongs to a job that finished since an older snapshot was taken:
-- that does not show the row, but its unique id does.
CREATE FUNCTION holdfast.check_unseen_v1(p_ns integer, p_ids uuid[]) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO holdfast.done (
            ns, id, task, queue, payload, state, priority, due, created, finished, token, version, run, failures, lost,
            suspect, cancel_asked)
        SELECT p_ns, u.id, '', '', '', -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false FROM unnest(p_ids) AS u(id)
        ON CONFLICT DO NOTHING;
        DELETE FROM holdfast.done WHERE ns = p_ns AND id = ANY (p_ids) AND state = -1;
    END IF;
END
$$;

-- Adds jobs one by one, for batches in which something is taken. p_n counts from 1.
CREATE FUNCTION holdfast.add_one_v1(
    p_ns integer, p_now bigint, p_n integer, p_id uuid, p_task text, p_queue text, p_payload bytea, p_priority bigint,
    p_due bigint, p_key text, p_key_ttl bigint, p_tags jsonb, p_lease bigint, p_timeout bigint, p_retry bytea,
    p_headers bytea, p_flow jsonb, p_rank bigint
) RETURNS jsonb LANGUAGE plpgsql
AS $$
DECLARE
    v_stood jsonb;
    v_holder uuid;
BEGIN
    LOOP
        v_stood := holdfast.stood_v1(p_ns, p_n, p_id, p_task, p_queue, p_payload, 'id');
        IF v_stood IS NOT NULL THEN
            RETURN v_stood;
        END IF;
        IF p_key IS NOT NULL THEN
            v_holder := holdfast.take_key_v1(p_ns, p_key, p_id, p_key_ttl, p_now);
            IF v_holder IS NOT NULL THEN
                v_stood := holdfast.stood_v1(p_ns, p_n, v_holder, p_task, p_queue, p_payload, 'key');
                CONTINUE WHEN v_stood IS NULL;
                RETURN v_stood;
            END IF;
        END IF;
        INSERT INTO holdfast.job (
            ns, id, task, queue, payload, priority, due, ready, created, key, tags, lease, timeout, retry, headers, limit_key,
            fair_key, rank, sequence, place, halts, after_any, held, expires, gate)
        VALUES (
            p_ns, p_id, p_task, p_queue, p_payload, p_priority, p_due,
            CASE WHEN (p_flow ?| ARRAY['after', 'held']) IS NOT TRUE THEN p_due <= p_now END, p_now, p_key,
            ARRAY(SELECT jsonb_array_elements_text(p_tags)), p_lease, p_timeout, p_retry, p_headers, p_flow ->> 'limit_key',
            p_flow ->> 'fair_key', p_rank, p_flow ->> 'sequence',
            CASE WHEN p_flow ? 'sequence' THEN nextval('holdfast.place') END, (p_flow ->> 'halts')::boolean,
            (p_flow ->> 'after_any')::boolean, (p_flow ->> 'held')::boolean, p_now + (p_flow ->> 'expires')::bigint,
            CASE WHEN p_flow ?| ARRAY['after', 'held'] THEN 'after' END)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            -- Finished while this was under way: the live row was gone before the insert, the other is visible now.
            PERFORM holdfast.check_unseen_v1(p_ns, ARRAY[p_id]);
            EXIT WHEN NOT EXISTS (SELECT FROM holdfast.done WHERE ns = p_ns AND id = p_id);
            DELETE FROM holdfast.job WHERE ns = p_ns AND id = p_id;
        END IF;
        IF p_key IS NOT NULL THEN
            DELETE FROM holdfast.key WHERE ns = p_ns AND key = p_key AND job = p_id
                AND NOT EXISTS (SELECT FROM holdfast.jobs AS s WHERE s.ns = p_ns AND s.id = p_id AND s.key = p_key);
        END IF;
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'job % was added by another transaction', p_id USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- Adds jobs, at the store's now unless p_now says which instant that is. Arrays are parallel; one that is null stands
-- for nulls. Gives {"now": …} and, under "stood", for each job that was not created, what stands there.
CREATE FUNCTION holdfast.add_v1(
    p_ns integer, p_now bigint, p_ids uuid[], p_tasks text[], p_queues text[], p_payloads bytea[], p_priorities bigint[],
    p_dues bigint[], p_delays bigint[], p_keys text[], p_key_ttls bigint[], p_tags jsonb[], p_leases bigint[],
    p_timeouts bigint[], p_retries bytea[], p_headers bytea[], p_flows jsonb[], p_wake text
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now bigint := coalesce(p_now, holdfast.now_v1());
    v_count integer := cardinality(p_ids);
    v_made integer;
    v_first uuid;
    v_last uuid;
    v_stood jsonb;
    v_ranks bigint[];
    v_flows jsonb;
BEGIN
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    BEGIN
        IF p_flows IS NOT NULL THEN
            v_ranks := holdfast.ranks_v1(p_ns, v_now, p_queues, p_priorities, p_flows, p_now IS NULL);
        END IF;
        IF p_keys IS NOT NULL THEN
            INSERT INTO holdfast.key (ns, key, job, until)
            SELECT p_ns, k.key, k.job, CASE WHEN k.ttl > 0 THEN v_now + k.ttl END
            FROM unnest(p_keys, p_ids, p_key_ttls) AS k(key, job, ttl) WHERE k.key IS NOT NULL ORDER BY k.key
            ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS v_made = ROW_COUNT;
            IF v_made < v_count - cardinality(array_positions(p_keys, NULL)) THEN
                RAISE unique_violation;
            END IF;
        END IF;
        INSERT INTO holdfast.job (
            ns, id, task, queue, payload, priority, due, ready, created, key, tags, lease, timeout, retry, headers, limit_key,
            fair_key, rank, sequence, place, halts, after_any, held, expires, gate)
        SELECT p_ns, n.id, n.task, n.queue, n.payload, n.priority, n.due,
               CASE WHEN (n.flow ?| ARRAY['after', 'held']) IS NOT TRUE THEN n.due <= v_now END, v_now, n.key,
               CASE WHEN n.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(n.tags)) END,
               n.lease, n.timeout, n.retry, n.headers, n.flow ->> 'limit_key', n.flow ->> 'fair_key', n.rank,
               n.flow ->> 'sequence', CASE WHEN n.flow ? 'sequence' THEN nextval('holdfast.place') END,
               (n.flow ->> 'halts')::boolean, (n.flow ->> 'after_any')::boolean, (n.flow ->> 'held')::boolean,
               v_now + (n.flow ->> 'expires')::bigint, CASE WHEN n.flow ?| ARRAY['after', 'held'] THEN 'after' END
        FROM (
            SELECT u.*, coalesce(u.at, v_now + coalesce(u.delay, 0)) AS due
            FROM unnest(p_ids, p_tasks, p_queues, p_payloads, p_priorities, p_dues, p_delays, p_keys, p_tags, p_leases,
                        p_timeouts, p_retries, p_headers, p_flows, v_ranks)
                 AS u(id, task, queue, payload, priority, at, delay, key, tags, lease, timeout, retry, headers, flow, rank)
        ) AS n
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS v_made = ROW_COUNT;
        -- The bounds tell which days to look at; an array does not.
        v_first := p_ids[1];
        v_last := p_ids[1];
        IF v_count > 1 THEN
            SELECT i.id INTO v_first FROM unnest(p_ids) AS i(id) ORDER BY i.id LIMIT 1;
            SELECT i.id INTO v_last FROM unnest(p_ids) AS i(id) ORDER BY i.id DESC LIMIT 1;
        END IF;
        IF v_made < v_count OR EXISTS (
            SELECT FROM holdfast.done WHERE ns = p_ns AND id = ANY (p_ids) AND id BETWEEN v_first AND v_last)
        THEN
            RAISE unique_violation;
        END IF;
        PERFORM holdfast.check_unseen_v1(p_ns, p_ids);
        IF p_flows IS NOT NULL THEN
            RETURN jsonb_build_object(
                'now', v_now, 'flows', holdfast.link_v1(p_ns, v_now, p_ids, p_flows, NULL, p_now IS NULL))::text;
        END IF;
        RETURN '{"now":' || v_now || '}';
    EXCEPTION WHEN unique_violation THEN
        v_made := 0;
    END;
    PERFORM holdfast.keep_keys_v1(p_ns, p_keys, v_now);
    -- Ranks are drawn by those alone that will be added: who these are is found out by adding them, which is undone.
    FOR v_pass IN CASE WHEN v_ranks IS NULL THEN 2 ELSE 1 END .. 2 LOOP
        BEGIN
            SELECT jsonb_agg(a.stood) FILTER (WHERE a.stood IS NOT NULL) INTO v_stood
            FROM (
                SELECT holdfast.add_one_v1(
                    p_ns, v_now, u.n::integer, u.id, u.task, u.queue, u.payload, u.priority,
                    coalesce(u.at, v_now + coalesce(u.delay, 0)), u.key, u.ttl, u.tags, u.lease, u.timeout, u.retry,
                    u.headers, u.flow, u.rank) AS stood
                FROM unnest(p_ids, p_tasks, p_queues, p_payloads, p_priorities, p_dues, p_delays, p_keys, p_key_ttls, p_tags,
                            p_leases, p_timeouts, p_retries, p_headers, p_flows, v_ranks) WITH ORDINALITY
                     AS u(id, task, queue, payload, priority, at, delay, key, ttl, tags, lease, timeout, retry, headers, flow, rank, n)
                ORDER BY u.n
            ) AS a;
            IF v_pass = 1 THEN
                RAISE SQLSTATE 'HF001';
            END IF;
        EXCEPTION WHEN SQLSTATE 'HF001' THEN
            v_ranks := holdfast.ranks_v1(p_ns, v_now, p_queues, p_priorities, ARRAY(
                SELECT CASE WHEN u.n NOT IN (
                    SELECT (s.one ->> 'n')::integer FROM jsonb_array_elements(v_stood) AS s(one)) THEN u.flow END
                FROM unnest(p_flows) WITH ORDINALITY AS u(flow, n) ORDER BY u.n), p_now IS NULL);
        END;
    END LOOP;
    PERFORM holdfast.free_keys_v1(p_ns, p_keys);
    IF p_flows IS NOT NULL THEN
        v_flows := holdfast.link_v1(p_ns, v_now, p_ids, p_flows, v_stood, p_now IS NULL);
        -- What stands may have been added by this very call, and be linked only now.
        SELECT jsonb_agg(jsonb_set(s.one, '{job}', to_jsonb(j))) INTO v_stood
        FROM jsonb_array_elements(v_stood) AS s(one)
        CROSS JOIN LATERAL (
            SELECT * FROM holdfast.jobs AS i WHERE i.ns = p_ns AND i.id = (s.one -> 'job' ->> 'id')::uuid OFFSET 0
        ) AS j;
    END IF;
    RETURN jsonb_build_object('now', v_now, 'stood', v_stood, 'flows', v_flows)::text;
END
$$;

-- Adds jobs that have no keys and ids that were never sent before; gives the store's now. Arrays as in add, and tasks,
-- queues and priorities may have one element that stands for all.
CREATE FUNCTION holdfast.add_fresh_v1(
    p_ns integer, p_ids uuid[], p_tasks text[], p_queues text[], p_payloads bytea[], p_priorities bigint[], p_dues bigint[],
    p_delays bigint[], p_tags jsonb[], p_leases bigint[], p_timeouts bigint[], p_retries bytea[], p_headers bytea[],
    p_wake text
) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
    v_task text := p_tasks[1];
    v_queue text := p_queues[1];
    v_priority bigint := p_priorities[1];
BEGIN
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    INSERT INTO holdfast.job (
        ns, id, task, queue, payload, priority, due, ready, created, tags, lease, timeout, retry, headers)
    SELECT p_ns, u.id, coalesce(u.task, v_task), coalesce(u.queue, v_queue), u.payload, coalesce(u.priority, v_priority),
           coalesce(u.at, v_now + u.delay, v_now), coalesce(u.at, v_now + u.delay, v_now) <= v_now, v_now,
           CASE WHEN u.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(u.tags)) END,
           u.lease, u.timeout, u.retry, u.headers
    FROM (
        SELECT unnest(p_ids) AS id, unnest(p_tasks) AS task, unnest(p_queues) AS queue, unnest(p_payloads) AS payload,
               unnest(p_priorities) AS priority, unnest(p_dues) AS at, unnest(p_delays) AS delay, unnest(p_tags) AS tags,
               unnest(p_leases) AS lease, unnest(p_timeouts) AS timeout, unnest(p_retries) AS retry,
               unnest(p_headers) AS headers
    ) AS u;
    RETURN v_now;
END
$$;

-- The same for jobs as a JSON array, which every driver can send; bytes are in hexadecimal.
CREATE FUNCTION holdfast.add_json_v1(p_ns integer, p_now bigint, p_jobs jsonb, p_wake text) RETURNS text LANGUAGE sql
AS $$
    SELECT holdfast.add_v1(
        p_ns, p_now, array_agg(j.id ORDER BY n), array_agg(j.task ORDER BY n), array_agg(j.queue ORDER BY n),
        array_agg(decode(j.payload, 'hex') ORDER BY n), array_agg(j.priority ORDER BY n), array_agg(j.due ORDER BY n),
        array_agg(j.delay ORDER BY n), array_agg(j.key ORDER BY n), array_agg(j.key_ttl ORDER BY n),
        array_agg(j.tags ORDER BY n), array_agg(j.lease ORDER BY n), array_agg(j.timeout ORDER BY n),
        array_agg(decode(j.retry, 'hex') ORDER BY n), array_agg(decode(j.headers, 'hex') ORDER BY n),
        CASE WHEN count(j.flow) > 0 THEN array_agg(j.flow ORDER BY n) END, p_wake)
    FROM jsonb_array_elements(p_jobs) WITH ORDINALITY AS e(job, n)
    CROSS JOIN LATERAL jsonb_to_record(e.job) AS j(
        id uuid, task text, queue text, payload text, priority bigint, due bigint, delay bigint, key text,
        key_ttl bigint, tags jsonb, lease bigint, timeout bigint, retry text, headers text, flow jsonb)
$$;

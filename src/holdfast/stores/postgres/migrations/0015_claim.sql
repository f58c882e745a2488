-- min-client: 13
-- What a tick does where a namespace uses flow, after its moves: settles what they ended. is_late: it must not claim now, and
-- what its moves ended is noted.
CREATE FUNCTION holdfast.tick_flow_v1(
    p_ns integer, p_now bigint, p_notes holdfast.note[], p_queues text[], p_tasks text[], p_is_late boolean,
    OUT freed uuid[], OUT heads tid[], OUT head_queues text[], OUT is_late boolean, OUT paused_tasks text[]
) LANGUAGE plpgsql
AS $$
DECLARE
    v_settled record;
BEGIN
    is_late := p_is_late OR NOT holdfast.take_flow_v1(p_ns);
    IF is_late THEN
        PERFORM holdfast.note_v1(p_ns, p_notes);
    ELSE
        SELECT * INTO v_settled FROM holdfast.settle_v1(p_ns, p_now, p_notes, p_queues, p_tasks);
        freed := v_settled.freed;
        heads := v_settled.heads;
        head_queues := v_settled.head_queues;
    END IF;
    SELECT array_agg(l.name) INTO paused_tasks FROM holdfast.limits AS l
    WHERE l.ns = p_ns AND l.scope = 'task' AND l.name = ANY (p_tasks) AND l.paused;
END
$$;

-- How long until there may be more to claim: at once if not all was looked at, else when a gate opens.
CREATE FUNCTION holdfast.opens_v1(
    p_ns integer, p_now bigint, p_queues text[], p_paused text[], p_tasks text[], p_left integer
) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    v_opens bigint;
BEGIN
    IF p_left > 0 AND EXISTS (
        SELECT FROM unnest(p_queues) AS q(name)
        CROSS JOIN LATERAL (
            SELECT j.id FROM holdfast.job AS j
            WHERE j.ns = p_ns AND j.queue = q.name AND j.ready AND j.task = ANY (p_tasks)
            ORDER BY j.priority, coalesce(j.rank, j.due), j.id LIMIT 1
        ) AS f
        WHERE q.name <> ALL (p_paused))
    THEN
        RETURN 0;
    END IF;
    SELECT g.opens INTO v_opens FROM holdfast.gate AS g
    WHERE g.ns = p_ns AND g.opens IS NOT NULL
      AND EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate = g.name OFFSET 0)
    ORDER BY g.opens LIMIT 1;
    RETURN CASE WHEN v_opens IS NOT NULL THEN greatest(v_opens - p_now, 0) END;
END
$$;

-- The first jobs of a queue, and of those that were let go at p_heads, in order: which of them may be claimed, until there are
-- p_left, and which are to be parked before that, at which gates; and which of p_heads were looked at. Ends where a parked job
-- leaves room to others that are parked, because one of these may come next: again has where. behind and others: gates, and
-- those that they keep from being of use. is_cut: there may be more to claim. instant as in rooms.
CREATE FUNCTION holdfast.weigh_v1(
    p_ns integer, p_now bigint, p_queue text, p_tasks text[], p_heads tid[], p_asked integer, p_left integer,
    p_is_limited boolean, OUT taken tid[], OUT parked tid[], OUT gates text[], OUT seen tid[], OUT size integer,
    OUT looked integer, OUT again text[], OUT behind text[], OUT others text[], OUT is_cut boolean, OUT instant bigint
) LANGUAGE plpgsql
AS $$
DECLARE
    v_places tid[];
    v_ids uuid[];
    v_tasks text[];
    v_keys text[];
    v_sequences text[];
    v_from text[];
    v_turns boolean[];
    v_gates text[];
    v_gate_tasks text[];
    v_of integer[];
    v_room record;
    v_rooms bigint[];
    v_by_rate bigint[];
    v_used bigint[];
    v_task_of integer[];
    v_pair_of integer[];
    v_task integer;
    v_key integer;
    v_pair integer;
    v_gate text;
    v_is_outer boolean := false;
BEGIN
    taken := '{}';
    parked := '{}';
    gates := '{}';
    seen := '{}';
    again := '{}';
    behind := '{}';
    others := '{}';
    looked := 0;
    is_cut := false;
    SELECT array_agg(c.place), array_agg(c.id), array_agg(c.task), array_agg(c.limit_key), array_agg(c.sequence),
           array_agg(c.gate)
    INTO v_places, v_ids, v_tasks, v_keys, v_sequences, v_from
    FROM (
        SELECT * FROM (
            SELECT i.ctid AS place, i.id, i.task, i.limit_key, i.sequence, i.gate, i.priority, coalesce(i.rank, i.due) AS rank
            FROM holdfast.job AS i
            WHERE i.ns = p_ns AND i.queue = p_queue AND i.ready AND i.task = ANY (p_tasks)
            ORDER BY i.priority, coalesce(i.rank, i.due), i.id LIMIT p_asked FOR NO KEY UPDATE SKIP LOCKED
        ) AS r
        UNION ALL
        SELECT h.ctid, h.id, h.task, h.limit_key, h.sequence, h.gate, h.priority, coalesce(h.rank, h.due)
        FROM holdfast.job AS h WHERE h.ctid = ANY (p_heads)
        ORDER BY priority, rank, id LIMIT p_asked
    ) AS c;
    size := coalesce(cardinality(v_ids), 0);
    IF size = 0 THEN
        RETURN;
    END IF;
    IF array_remove(v_sequences, NULL) <> '{}' THEN
        SELECT array_agg(t.is_turn ORDER BY t.n) INTO v_turns FROM (
            SELECT s.n, s.name IS NULL OR (s.id = holdfast.next_v1(p_ns, s.name) AND NOT EXISTS (
                SELECT FROM holdfast.job AS j
                WHERE j.ns = p_ns AND j.sequence = s.name AND j.worker IS NOT NULL OFFSET 0)) AS is_turn
            FROM unnest(v_ids, v_sequences) WITH ORDINALITY AS s(id, name, n)
        ) AS t;
    END IF;
    IF p_is_limited THEN
        -- The gates: that of the queue, those of tasks, those of keys, each key once for each task. What is used counts for
        -- a key as a whole, so v_of has where that is counted.
        SELECT array_agg(g.task_of ORDER BY g.n), array_agg(g.pair_of ORDER BY g.n)
        INTO v_task_of, v_pair_of FROM (
            SELECT u.n, dense_rank() OVER (ORDER BY u.task) AS task_of,
                   CASE WHEN u.key IS NOT NULL THEN dense_rank() OVER (ORDER BY u.key, u.task) END AS pair_of
            FROM unnest(v_tasks, v_keys) WITH ORDINALITY AS u(task, key, n)
        ) AS g;
        SELECT array_agg(g.gate ORDER BY g.kind, g.turn), array_agg(g.task ORDER BY g.kind, g.turn),
               array_agg(1 + g.first + CASE WHEN g.kind = 3 THEN t.tasks ELSE 0 END ORDER BY g.kind, g.turn),
               max(1 + t.tasks)
        INTO v_gates, v_gate_tasks, v_of, v_key
        FROM (
            SELECT 1 AS kind, 0 AS turn, 'queue:' || p_queue AS gate, '' AS task, 0 AS first
            UNION ALL
            SELECT DISTINCT 2, u.task_of, 'task:' || u.task, u.task, u.task_of
            FROM unnest(v_tasks, v_task_of) AS u(task, task_of)
            UNION ALL
            SELECT 3, u.pair_of, 'key:' || u.key, u.task, min(u.pair_of) OVER (PARTITION BY u.key)
            FROM (
                SELECT DISTINCT i.key, i.task, i.pair_of FROM unnest(v_tasks, v_keys, v_pair_of) AS i(task, key, pair_of)
                WHERE i.key IS NOT NULL
            ) AS u
        ) AS g CROSS JOIN (SELECT max(i.task_of) AS tasks FROM unnest(v_task_of) AS i(task_of)) AS t;
        SELECT * INTO v_room FROM holdfast.rooms_v1(p_ns, p_now, v_gates, v_gate_tasks);
        instant := v_room.instant;
        v_rooms := v_room.rooms;
        v_by_rate := v_room.by_rate;
        v_used := array_fill(0::bigint, ARRAY[cardinality(v_gates)]);
        v_is_outer := num_nonnulls(VARIADIC v_rooms[:v_key]) + num_nonnulls(VARIADIC v_by_rate[:v_key]) > 0;
    ELSE
        instant := greatest(p_now, holdfast.now_v1());
    END IF;
    FOR v_n IN 1 .. size LOOP
        looked := looked + 1;
        v_gate := NULL;
        IF p_heads <> '{}' AND v_from[v_n] IS NOT NULL THEN
            seen := seen || v_places[v_n];
        END IF;
        IF NOT v_turns[v_n] THEN
            v_gate := 'sequence:' || v_sequences[v_n];
        END IF;
        IF p_is_limited THEN
            v_pair := v_key + v_pair_of[v_n];
            IF v_is_outer THEN
                v_task := 1 + v_task_of[v_n];
            END IF;
            IF v_gate IS NULL THEN
                IF v_is_outer AND (v_rooms[1] <= v_used[1] OR v_by_rate[1] <= 0) THEN
                    v_gate := v_gates[1];
                ELSIF v_is_outer AND (v_rooms[v_task] <= v_used[v_task] OR v_by_rate[v_task] <= 0) THEN
                    v_gate := v_gates[v_task];
                ELSIF v_pair IS NOT NULL AND (v_rooms[v_pair] <= v_used[v_of[v_pair]] OR v_by_rate[v_pair] <= 0) THEN
                    v_gate := v_gates[v_pair];
                END IF;
            END IF;
            IF v_gate IS NULL THEN
                IF v_is_outer THEN
                    v_used[1] := v_used[1] + 1;
                    v_used[v_task] := v_used[v_task] + 1;
                    v_by_rate[1] := v_by_rate[1] - 1;
                    v_by_rate[v_task] := v_by_rate[v_task] - 1;
                END IF;
                IF v_pair IS NOT NULL THEN
                    v_used[v_of[v_pair]] := v_used[v_of[v_pair]] + 1;
                    IF v_by_rate[v_pair] IS NOT NULL THEN
                        v_by_rate[v_pair] := v_by_rate[v_pair] - 1;
                        -- A rate that jobs of several tasks use up is looked at anew.
                        is_cut := v_of[v_pair] <> v_pair OR coalesce(v_of[v_pair + 1] = v_of[v_pair], false);
                    END IF;
                END IF;
            END IF;
        END IF;
        IF v_gate IS NULL THEN
            taken := taken || v_places[v_n];
            EXIT WHEN cardinality(taken) = p_left OR is_cut;
            CONTINUE;
        END IF;
        IF v_from[v_n] IS DISTINCT FROM v_gate THEN
            parked := parked || v_places[v_n];
            gates := gates || v_gate;
        END IF;
        IF v_is_outer OR (p_is_limited AND v_gate LIKE 'sequence:%') THEN
            -- Others may have the room that it was let go for. If its queue or task holds it back, that is so for all in
            -- its lines elsewhere, and the room is looked at when that gate opens.
            IF v_gate <> v_gates[1] AND least(v_rooms[1] - v_used[1], v_by_rate[1]) > 0 THEN
                again := again || v_gates[1];
            END IF;
            IF v_gate <> v_gates[v_task] AND least(v_rooms[v_task] - v_used[v_task], v_by_rate[v_task]) > 0 THEN
                again := again || v_gates[v_task];
            END IF;
            IF v_gate <> v_gates[v_pair] AND least(v_rooms[v_pair] - v_used[v_of[v_pair]], v_by_rate[v_pair]) > 0 THEN
                again := again || v_gates[v_pair];
            END IF;
            IF again <> '{}' AND v_gate IN (v_gates[1], v_gates[v_task]) THEN
                behind := behind || array_fill(v_gate, ARRAY[cardinality(again)]);
                others := others || again;
                again := '{}';
            ELSIF again <> '{}' THEN
                again := ARRAY(
                    SELECT DISTINCT g.name FROM unnest(again) AS g(name)
                    WHERE EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate = g.name OFFSET 0));
                EXIT WHEN again <> '{}';
            END IF;
        END IF;
    END LOOP;
    IF p_is_limited THEN
        INSERT INTO holdfast.gate AS g (ns, name, last, opens)
        SELECT p_ns, r.gate, instant + r.used * r.step, instant + r.used * r.step - (r.burst - 1) * r.step FROM (
            SELECT u.gate, sum(u.was - u.is_left) AS used, min(u.step) AS step, min(u.burst) AS burst
            FROM unnest(v_gates, v_room.by_rate, v_by_rate, v_room.intervals, v_room.bursts)
                AS u(gate, was, is_left, step, burst)
            WHERE u.step IS NOT NULL AND (u.was > u.is_left OR u.was <= 0)
            GROUP BY u.gate
        ) AS r
        ON CONFLICT (ns, name) DO UPDATE
        SET last = greatest(g.last, instant) + (excluded.last - instant),
            opens = greatest(g.last, instant) + (excluded.last - instant) + (excluded.opens - excluded.last);
    END IF;
END
$$;

-- Claims ready jobs of one queue in order, passes over those that a sequence or a limit holds back, and parks them. Looks at
-- them in rounds, each by what is leased then, and with an instant of its own that is later than the end of all that it saw
-- ended. p_heads are parked jobs that were let go: those that it does not come to are ready afterwards.
CREATE FUNCTION holdfast.claim_v1(
    p_ns integer, p_worker text, p_seq bigint, p_queue text, p_tasks text[], p_limit integer, p_lease bigint, p_now bigint,
    p_heads tid[]
) RETURNS TABLE (
    answer text, id uuid, task text, queue text, payload bytea, priority bigint, due bigint, created bigint, run integer,
    version integer, token bigint, headers bytea, rest json
) LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_left integer := p_limit;
    v_looks integer := p_limit + 1000;
    v_size integer := greatest(p_limit, 20);
    v_asked integer;
    v_times integer := 1;
    v_is_limited boolean := EXISTS (
        SELECT FROM holdfast.limits AS l
        WHERE l.ns = p_ns AND (l.paused OR l.concurrency IS NOT NULL OR l.rate IS NOT NULL));
    v_is_hard boolean := NOT v_is_limited OR EXISTS (
        SELECT FROM holdfast.limits AS l
        WHERE l.ns = p_ns AND l.scope IN ('queue', 'task') AND l.name = ANY (p_queue || p_tasks)
          AND (l.paused OR l.concurrency IS NOT NULL OR l.rate IS NOT NULL));
    v_sifted record;
    v_weighed record;
    v_taken tid[];
    v_seen tid[];
    v_instant bigint;
    v_is_last boolean;
    v_again text[] := '{}';
    v_behind text[] := '{}';
    v_others text[] := '{}';
    v_heads tid[] := p_heads;
BEGIN
    WHILE v_left > 0 AND v_looks > 0 LOOP
        v_asked := least(v_size, v_looks);
        IF NOT v_is_hard THEN
            SELECT * INTO v_sifted FROM holdfast.sift_v1(p_ns, p_now, p_queue, p_tasks, v_heads, v_asked, v_left);
            v_is_hard := v_sifted.is_hard;
        END IF;
        IF NOT v_is_hard THEN
            v_taken := v_sifted.taken;
            v_seen := v_sifted.seen;
            v_instant := v_sifted.instant;
            v_looks := v_looks - v_sifted.looked;
            v_is_last := v_sifted.size < v_asked;
            IF v_sifted.parked <> '{}' THEN
                UPDATE holdfast.job AS j SET gate = 'key:' || j.limit_key, ready = NULL
                WHERE j.ctid = ANY (v_sifted.parked) AND j.gate IS DISTINCT FROM 'key:' || j.limit_key;
            END IF;
        ELSE
            SELECT * INTO v_weighed
            FROM holdfast.weigh_v1(p_ns, p_now, p_queue, p_tasks, v_heads, v_asked, v_left, v_is_limited);
            v_taken := v_weighed.taken;
            v_seen := v_weighed.seen;
            v_instant := v_weighed.instant;
            v_looks := v_looks - v_weighed.looked;
            v_is_last := v_weighed.size < v_asked AND NOT v_weighed.is_cut;
            v_again := v_weighed.again;
            v_behind := v_behind || v_weighed.behind;
            v_others := v_others || v_weighed.others;
            IF v_weighed.parked <> '{}' THEN
                UPDATE holdfast.job AS j SET gate = p.gate, ready = NULL
                FROM (SELECT unnest(v_weighed.parked) AS place, unnest(v_weighed.gates) AS gate OFFSET 0) AS p
                WHERE j.ctid = p.place;
            END IF;
        END IF;
        IF v_taken <> '{}' THEN
            RETURN QUERY
            UPDATE holdfast.job AS j
            SET state = 1, ready = NULL, gate = NULL, run = j.run + 1, version = j.version + 1,
                token = greatest(j.token + 1, v_instant), worker = p_worker, seq = p_seq,
                lease_until = v_instant + coalesce(j.lease, p_lease), started = NULL, reason = NULL, progress = NULL, progress_note = NULL
            WHERE j.ctid = ANY (v_taken)
            RETURNING NULL::text, j.id, j.task, j.queue, j.payload, j.priority, j.due, j.created, j.run, j.version, j.token,
                      j.headers,
                      CASE WHEN j.failures > 0 OR j.lost > 0 OR j.suspect OR j.cancel_asked OR j.run > 1 OR num_nonnulls(
                          j.lease, j.timeout, j.retry, j.key, j.tags, j.error, j.result, j.fair_key, j.sequence, j.halts,
                          j.after_any, j.expires, j.unmet) > 0
                      THEN json_build_object(
                          'state', j.state, 'failures', j.failures, 'lost', j.lost, 'suspect', j.suspect, 'cancel_asked',
                          j.cancel_asked, 'lease_until', j.lease_until, 'lease', j.lease, 'timeout', j.timeout, 'retry',
                          j.retry, 'key', j.key, 'tags', j.tags, 'error', j.error, 'result', j.result, 'flow',
                          json_strip_nulls(json_build_object(
                              'limit_key', j.limit_key, 'fair_key', j.fair_key, 'rank', j.rank, 'sequence', j.sequence,
                              'halts', j.halts, 'after_any', j.after_any, 'expires', j.expires, 'unmet', j.unmet)))
                      WHEN j.limit_key IS NOT NULL
                      THEN json_build_object('flow', json_build_object('limit_key', j.limit_key)) END;
            v_left := v_left - cardinality(v_taken);
        END IF;
        IF v_seen <> '{}' THEN
            v_heads := ARRAY(SELECT unnest(v_heads) EXCEPT SELECT unnest(v_seen));
        END IF;
        IF v_again <> '{}' THEN
            PERFORM holdfast.free_v1(p_now, v_heads);
            v_heads := '{}';
            PERFORM holdfast.open_v1(p_ns, p_now, v_again, v_times, NULL, NULL);
            v_times := least(2 * v_times, 1000);
        ELSE
            EXIT WHEN v_is_last;
        END IF;
        v_size := least(2 * v_size, 1000);
    END LOOP;
    IF v_heads <> '{}' THEN
        PERFORM holdfast.free_v1(p_now, v_heads);
    END IF;
    IF v_behind <> '{}' THEN
        INSERT INTO holdfast.behind (ns, gate, other)
        SELECT DISTINCT p_ns, b.gate, b.other FROM unnest(v_behind, v_others) AS b(gate, other)
        WHERE EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate = b.other OFFSET 0)
        ON CONFLICT DO NOTHING;
    END IF;
END
$$;

-- min-client: 13
-- What holds jobs back beside their due time. Where a namespace stands in flowing, whoever claims jobs, or settles what
-- ended, holds the lock 'flow' alone until the commit; elsewhere ticks share it, so that whoever takes it alone sees all
-- that they did. It is taken after the rows of one's own jobs; other rows are passed over if somebody has them. A transaction
-- of others never takes it, and leaves notes instead.

-- Takes the lock; false if it is not to be had soon.
CREATE FUNCTION holdfast.take_flow_v1(p_ns integer) RETURNS boolean LANGUAGE plpgsql
AS $$
BEGIN
    IF pg_try_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns)) THEN
        RETURN true;
    END IF;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.flow', p_ns));
        RETURN true;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
END
$$;

-- Says that the namespace uses limits, sequences or links. Whoever is ending a leased job in a transaction of others that
-- began before leaves no note, so all of these are looked at.
CREATE FUNCTION holdfast.use_flow_v1(p_ns integer) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.flowing AS f WHERE f.ns = p_ns) THEN
        INSERT INTO holdfast.flowing (ns) VALUES (p_ns);
        INSERT INTO holdfast.note (ns, job, is_new, queue, task, limit_key, sequence)
        SELECT p_ns, j.id, false, j.queue, j.task, j.limit_key, j.sequence
        FROM holdfast.job AS j WHERE j.ns = p_ns AND j.worker IS NOT NULL;
    END IF;
END
$$;

-- What there is to note of jobs that ended or will be removed.
CREATE FUNCTION holdfast.ended_v1(p_ns integer, p_ids uuid[]) RETURNS holdfast.note[] LANGUAGE sql VOLATILE
AS $$
    SELECT coalesce(array_agg((p_ns, i.id, false, NULL, s.queue, s.task, s.limit_key, s.sequence, NULL)::holdfast.note), '{}')
    FROM unnest(p_ids) AS i(id)
    CROSS JOIN LATERAL (
        (SELECT d.queue, d.task, d.limit_key, d.sequence FROM holdfast.done AS d WHERE d.ns = p_ns AND d.id = i.id OFFSET 0)
        UNION ALL
        (SELECT j.queue, j.task, j.limit_key, j.sequence FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = i.id OFFSET 0)
        LIMIT 1
    ) AS s
$$;

-- The same of leased jobs that moves will end.
CREATE FUNCTION holdfast.leased_v1(p_ns integer, p_moves jsonb) RETURNS holdfast.note[] LANGUAGE sql VOLATILE
AS $$
    SELECT coalesce(array_agg((p_ns, i.id, false, NULL, s.queue, s.task, s.limit_key, s.sequence, NULL)::holdfast.note), '{}')
    FROM (
        SELECT (m.move ->> 'job')::uuid AS id FROM jsonb_array_elements(p_moves) AS m(move)
        WHERE m.move ->> 'outcome' IS NOT NULL
    ) AS i
    CROSS JOIN LATERAL (
        SELECT j.queue, j.task, j.limit_key, j.sequence FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = i.id OFFSET 0
    ) AS s
$$;

CREATE FUNCTION holdfast.note_v1(p_ns integer, p_notes holdfast.note[]) RETURNS void LANGUAGE sql
AS $$
    INSERT INTO holdfast.note (ns, job, is_new, before, queue, task, limit_key, sequence)
    SELECT p_ns, n.job, n.is_new, n.before, n.queue, n.task, n.limit_key, n.sequence FROM unnest(p_notes) AS n
$$;

-- How many more jobs gates would let through, for jobs of a task each: by the number that may be leased, null if it is not
-- limited, and by the rate, with its interval and burst. instant: when that is so. It is read by the statement that counts:
-- whatever that sees ended has ended before.
CREATE FUNCTION holdfast.rooms_v1(
    p_ns integer, p_now bigint, p_gates text[], p_tasks text[], OUT rooms bigint[], OUT by_rate bigint[],
    OUT intervals bigint[], OUT bursts bigint[], OUT instant bigint
) LANGUAGE plpgsql
AS $$
BEGIN
    WITH clock AS MATERIALIZED (
        SELECT greatest(p_now, holdfast.now_v1()) AS now
    ), leased AS MATERIALIZED (
        SELECT j.queue, j.task, count(*) AS jobs FROM holdfast.job AS j
        WHERE j.ns = p_ns AND j.worker IS NOT NULL GROUP BY j.queue, j.task
    ), known AS (
        SELECT g.n, g.scope, g.name, g.gate, l.concurrency, l.paused, l.burst,
               CASE WHEN l.rate > 0 THEN (l.period + l.rate - 1) / l.rate END AS step
        FROM (
            SELECT u.n, u.gate, u.task, split_part(u.gate, ':', 1) AS scope, substr(u.gate, strpos(u.gate, ':') + 1) AS name
            FROM unnest(p_gates, p_tasks) WITH ORDINALITY AS u(gate, task, n)
        ) AS g
        LEFT JOIN LATERAL (
            (SELECT 1 AS turn, i.* FROM holdfast.limits AS i
             WHERE i.ns = p_ns AND i.scope = g.scope AND i.name = g.name OFFSET 0)
            UNION ALL
            (SELECT 2 AS turn, i.* FROM holdfast.limits AS i
             WHERE g.scope = 'key' AND i.ns = p_ns AND i.scope = 'each_key' AND i.name = g.task OFFSET 0)
            ORDER BY turn LIMIT 1
        ) AS l ON true
    ), counted AS (
        SELECT k.n, k.step, k.burst,
               CASE WHEN k.paused THEN 0
                    WHEN k.concurrency IS NOT NULL THEN k.concurrency - CASE k.scope
                        WHEN 'key' THEN (
                            SELECT count(*) FROM holdfast.job AS j
                            WHERE j.ns = p_ns AND j.limit_key = k.name AND j.worker IS NOT NULL)
                        WHEN 'queue' THEN (SELECT coalesce(sum(c.jobs), 0) FROM leased AS c WHERE c.queue = k.name)
                        ELSE (SELECT coalesce(sum(c.jobs), 0) FROM leased AS c WHERE c.task = k.name) END
               END AS room,
               CASE WHEN k.step IS NOT NULL THEN (
                   t.now + k.burst * k.step - greatest(t.now, (
                       SELECT i.last FROM holdfast.gate AS i WHERE i.ns = p_ns AND i.name = k.gate))) / k.step END AS by_rate
        FROM known AS k CROSS JOIN clock AS t
    )
    SELECT array_agg(c.room ORDER BY c.n), array_agg(c.by_rate ORDER BY c.n), array_agg(c.step ORDER BY c.n),
           array_agg(c.burst ORDER BY c.n), (SELECT t.now FROM clock AS t)
    INTO rooms, by_rate, intervals, bursts, instant FROM counted AS c;
END
$$;

-- The first jobs of a queue, and of those that were let go at p_heads, by limits on keys alone: which of them these let through
-- until there are p_left, which they hold back before that, also at the gate where it stands, and which of p_heads were looked at.
-- is_hard: other things than these decide here as well, so nothing is said of them. instant as in rooms.
CREATE FUNCTION holdfast.sift_v1(
    p_ns integer, p_now bigint, p_queue text, p_tasks text[], p_heads tid[], p_asked integer, p_left integer,
    OUT taken tid[], OUT parked tid[], OUT seen tid[], OUT size integer, OUT looked integer, OUT is_hard boolean,
    OUT instant bigint
) LANGUAGE plpgsql
AS $$
BEGIN
    WITH clock AS MATERIALIZED (
        SELECT greatest(p_now, holdfast.now_v1()) AS now
    ), page AS MATERIALIZED (
        SELECT c.*, row_number() OVER (ORDER BY c.priority, c.rank, c.id)::integer AS n FROM (SELECT * FROM (
            SELECT i.ctid AS place, i.id, i.task, i.limit_key AS key, i.sequence, i.gate, i.priority,
                   coalesce(i.rank, i.due) AS rank
            FROM holdfast.job AS i
            WHERE i.ns = p_ns AND i.queue = p_queue AND i.ready AND i.task = ANY (p_tasks)
            ORDER BY i.priority, coalesce(i.rank, i.due), i.id
            -- Of heads that come before all of these, so many less.
            LIMIT CASE WHEN p_heads = '{}' THEN p_asked ELSE greatest(0, p_asked - (
                SELECT count(*) FROM holdfast.job AS h
                WHERE h.ctid = ANY (p_heads) AND (h.priority, coalesce(h.rank, h.due), h.id) < (
                    SELECT f.priority, coalesce(f.rank, f.due), f.id FROM holdfast.job AS f
                    WHERE f.ns = p_ns AND f.queue = p_queue AND f.ready
                    ORDER BY f.priority, coalesce(f.rank, f.due), f.id LIMIT 1))) END
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS r
        UNION ALL
        SELECT h.ctid, h.id, h.task, h.limit_key, h.sequence, h.gate, h.priority, coalesce(h.rank, h.due)
        FROM holdfast.job AS h WHERE h.ctid = ANY (p_heads)
        ORDER BY priority, rank, id LIMIT p_asked) AS c
    ), facts AS MATERIALIZED (
        SELECT count(*) AS size, coalesce(bool_or(p.sequence IS NOT NULL), false) AS is_hard,
               min(p.task) FILTER (WHERE p.key IS NOT NULL) AS task,
               min(p.task) FILTER (WHERE p.key IS NOT NULL) <> max(p.task) FILTER (WHERE p.key IS NOT NULL) AS are_several,
               EXISTS (SELECT FROM holdfast.limits AS l WHERE l.ns = p_ns AND l.scope = 'key') AS has_own
        FROM page AS p
    ), each AS MATERIALIZED (
        SELECT l.rate, l.paused, l.concurrency FROM facts AS f
        CROSS JOIN LATERAL (
            SELECT * FROM holdfast.limits AS i WHERE i.ns = p_ns AND i.scope = 'each_key' AND i.name = f.task OFFSET 0
        ) AS l
    ), keys AS (
        -- In order, each key's jobs by themselves.
        SELECT p.key, array_agg(p.place) AS places, array_agg(p.n) AS turns, count(*) AS jobs
        FROM (SELECT i.key, i.n, i.place FROM page AS i ORDER BY i.key, i.n OFFSET 0) AS p
        GROUP BY p.key
    ), rooms AS MATERIALIZED (
        SELECT k.places, k.turns, k.jobs, CASE WHEN k.key IS NULL THEN NULL WHEN l.is_own THEN l.rate ELSE e.rate END > 0 AS is_hard,
               greatest(0, coalesce(CASE
                   WHEN k.key IS NULL THEN NULL
                   WHEN CASE WHEN l.is_own THEN l.paused ELSE e.paused END THEN 0
                   ELSE CASE WHEN l.is_own THEN l.concurrency ELSE e.concurrency END - (
                       SELECT count(*) FROM holdfast.job AS i
                       WHERE i.ns = p_ns AND i.limit_key = k.key AND i.worker IS NOT NULL) END, k.jobs))::integer AS room
        FROM keys AS k CROSS JOIN facts AS f LEFT JOIN each AS e ON true
        LEFT JOIN LATERAL (
            SELECT true AS is_own, i.rate, i.paused, i.concurrency FROM holdfast.limits AS i
            WHERE f.has_own AND i.ns = p_ns AND i.scope = 'key' AND i.name = k.key OFFSET 0
        ) AS l ON true
    ), passed AS (
        SELECT unnest(r.places[:r.room]) AS place, unnest(r.turns[:r.room]) AS n FROM rooms AS r
    ), last AS MATERIALIZED (
        SELECT CASE WHEN (SELECT sum(least(r.room, r.jobs)) FROM rooms AS r) >= p_left
               THEN (SELECT p.n FROM passed AS p ORDER BY p.n OFFSET p_left - 1 LIMIT 1) ELSE p_asked + 1 END AS n
    )
    SELECT ARRAY(SELECT p.place FROM passed AS p WHERE p.n <= l.n),
           ARRAY(SELECT h.place FROM (
                     SELECT unnest(r.places[r.room + 1:]) AS place, unnest(r.turns[r.room + 1:]) AS n
                     FROM rooms AS r WHERE r.room < r.jobs
                 ) AS h WHERE h.n < l.n),
           CASE WHEN p_heads = '{}' THEN '{}'
                ELSE ARRAY(SELECT p.place FROM page AS p WHERE p.gate IS NOT NULL AND p.n <= l.n) END,
           f.size, least(f.size, l.n),
           f.is_hard OR EXISTS (SELECT FROM rooms AS r WHERE r.is_hard) OR (
               f.are_several
               -- What one of several tasks takes of a key counts for the others, whose limit on it may be another.
               AND (SELECT count(DISTINCT (l.paused, l.concurrency, l.rate)) > 1
                    FROM unnest(p_tasks) AS t(name)
                    LEFT JOIN holdfast.limits AS l ON l.ns = p_ns AND l.scope = 'each_key' AND l.name = t.name)) IS TRUE,
           (SELECT t.now FROM clock AS t)
    INTO taken, parked, seen, size, looked, is_hard, instant
    FROM facts AS f CROSS JOIN last AS l;
END
$$;

-- Frees parked jobs; which.
CREATE FUNCTION holdfast.free_v1(p_now bigint, p_places tid[]) RETURNS uuid[] LANGUAGE sql
AS $$
    WITH freed AS (
        UPDATE holdfast.job AS j SET gate = NULL, ready = j.due <= p_now
        WHERE j.ctid = ANY (p_places) AND j.gate IS NOT NULL RETURNING j.id
    )
    SELECT coalesce(array_agg(f.id), '{}') FROM freed AS f
$$;

-- Frees the first jobs of each line of these gates, as many as have room there, times p_times; which. Those of p_queues and
-- p_tasks, which will be claimed next, stay where they are: heads tells where that is.
CREATE FUNCTION holdfast.open_v1(
    p_ns integer, p_now bigint, p_gates text[], p_times integer, p_queues text[], p_tasks text[], OUT freed uuid[],
    OUT heads tid[], OUT head_queues text[]
) LANGUAGE plpgsql
AS $$
DECLARE
    v_most constant integer := 1000;
    v_soon constant bigint := 50000;
    v_gates text[];
    v_queues text[];
    v_tasks text[];
    v_room record;
    v_places tid[];
    v_lines bigint[];
BEGIN
    freed := '{}';
    heads := '{}';
    head_queues := '{}';
    WITH gone AS (
        DELETE FROM holdfast.behind AS b WHERE b.ns = p_ns AND b.gate = ANY (p_gates) RETURNING b.other
    )
    SELECT p_gates || array_agg(DISTINCT g.other) INTO p_gates FROM gone AS g WHERE g.other <> ALL (p_gates);
    UPDATE holdfast.gate AS g SET opens = NULL WHERE g.ns = p_ns AND g.name = ANY (p_gates) AND g.opens <= p_now;
    WITH RECURSIVE lines (gate, queue, task) AS (
        SELECT g.gate, l.queue, l.task FROM unnest(p_gates) AS g(gate)
        CROSS JOIN LATERAL (
            SELECT j.queue, j.task FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate = g.gate
            ORDER BY j.queue, j.task LIMIT 1
        ) AS l
        UNION ALL
        SELECT p.gate, l.queue, l.task FROM lines AS p
        CROSS JOIN LATERAL (
            SELECT j.queue, j.task FROM holdfast.job AS j
            WHERE j.ns = p_ns AND j.gate = p.gate AND (j.queue, j.task) > (p.queue, p.task)
            ORDER BY j.queue, j.task LIMIT 1
        ) AS l
    )
    SELECT array_agg(l.gate), array_agg(l.queue), array_agg(l.task) INTO v_gates, v_queues, v_tasks FROM lines AS l;
    IF v_gates IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO v_room FROM holdfast.rooms_v1(p_ns, p_now, v_gates, v_tasks);
    SELECT array_agg(s.place) FILTER (WHERE NOT s.is_wanted),
           coalesce(array_agg(s.place) FILTER (WHERE s.is_wanted), '{}'),
           coalesce(array_agg(s.queue) FILTER (WHERE s.is_wanted), '{}'), coalesce(array_agg(s.line), '{}')
    INTO v_places, heads, head_queues, v_lines
    FROM (
        SELECT p.place, l.queue, coalesce(l.queue = ANY (p_queues) AND l.task = ANY (p_tasks), false) AS is_wanted, l.line
        FROM unnest(v_gates, v_queues, v_tasks, v_room.rooms, v_room.by_rate)
            WITH ORDINALITY AS l(gate, queue, task, room, by_rate, line)
        CROSS JOIN LATERAL (
            SELECT i.ctid AS place FROM holdfast.job AS i
            WHERE i.ns = p_ns AND i.gate = l.gate AND i.queue = l.queue AND i.task = l.task
            ORDER BY i.priority, coalesce(i.rank, i.due), i.id
            LIMIT least(v_most, greatest(0, p_times * coalesce(least(l.room, l.by_rate), v_most)))
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS p
    ) AS s;
    IF v_places IS NOT NULL THEN
        freed := holdfast.free_v1(p_now, v_places);
    END IF;
    -- What is left at a gate without a limit is freed later; what is left at one with a rate, when that allows.
    INSERT INTO holdfast.gate AS g (ns, name, last, opens)
    SELECT p_ns, l.gate, 0, 0 FROM unnest(v_gates, v_queues, v_tasks, v_room.rooms, v_room.by_rate)
        AS l(gate, queue, task, room, by_rate)
    WHERE l.room IS NULL AND l.by_rate IS NULL AND cardinality(freed) + cardinality(heads) >= v_most AND EXISTS (
        SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.gate = l.gate AND j.queue = l.queue AND j.task = l.task)
    GROUP BY l.gate
    ON CONFLICT (ns, name) DO UPDATE SET opens = 0;
    UPDATE holdfast.gate AS g SET opens = g.last - (l.burst - 1) * l.step
    FROM unnest(v_gates, v_room.by_rate, v_room.intervals, v_room.bursts) AS l(gate, by_rate, step, burst)
    WHERE l.by_rate <= 0 AND g.ns = p_ns AND g.name = l.gate;
    -- Where somebody has the rows of those who come next: they may not be changed in the end.
    IF p_times > 1 OR cardinality(v_lines) < (
        SELECT sum(greatest(0, least(v_most, l.room, l.by_rate))) FROM unnest(v_room.rooms, v_room.by_rate) AS l(room, by_rate))
    THEN
        INSERT INTO holdfast.gate AS g (ns, name, last, opens)
        SELECT DISTINCT p_ns, l.gate, 0, p_now + v_soon
        FROM unnest(v_gates, v_queues, v_tasks, v_room.rooms, v_room.by_rate)
            WITH ORDINALITY AS l(gate, queue, task, room, by_rate, line)
        WHERE least(v_most, l.room, l.by_rate) > cardinality(array_positions(v_lines, l.line)) AND EXISTS (
            SELECT FROM holdfast.job AS j
            WHERE j.ns = p_ns AND j.gate = l.gate AND j.queue = l.queue AND j.task = l.task AND j.ctid <> ALL (heads) OFFSET 0)
        ON CONFLICT (ns, name) DO UPDATE SET opens = least(g.opens, excluded.opens);
    END IF;
END
$$;

-- The one job of a sequence that may be claimed.
CREATE FUNCTION holdfast.next_v1(p_ns integer, p_sequence text) RETURNS uuid LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
        (SELECT h.job FROM holdfast.halt AS h WHERE h.ns = p_ns AND h.sequence = p_sequence),
        (SELECT j.id FROM holdfast.job AS j WHERE j.ns = p_ns AND j.sequence = p_sequence
         ORDER BY j.sequence, j.place, j.id LIMIT 1))
$$;

-- Frees the jobs whose turn it is in their sequences; which. One whose row somebody has is noted.
CREATE FUNCTION holdfast.call_v1(p_ns integer, p_now bigint, p_sequences text[]) RETURNS uuid[] LANGUAGE sql
AS $$
    WITH next AS MATERIALIZED (
        SELECT s.name, t.id FROM unnest(p_sequences) AS s(name)
        CROSS JOIN LATERAL (SELECT holdfast.next_v1(p_ns, s.name) AS id OFFSET 0) AS t
        CROSS JOIN LATERAL (
            SELECT FROM holdfast.job AS i WHERE i.ns = p_ns AND i.id = t.id AND i.gate || '' = 'sequence:' || s.name OFFSET 0
        ) AS j
    ), got AS MATERIALIZED (
        SELECT i.place, i.id FROM next AS n
        CROSS JOIN LATERAL (
            SELECT j.ctid AS place, j.id FROM holdfast.job AS j
            WHERE j.ns = p_ns AND j.id = n.id AND j.gate || '' = 'sequence:' || n.name FOR NO KEY UPDATE SKIP LOCKED
        ) AS i
    ), noted AS (
        INSERT INTO holdfast.note (ns, job, is_new, sequence)
        SELECT p_ns, n.id, false, n.name FROM next AS n WHERE n.id NOT IN (SELECT g.id FROM got AS g)
    ), freed AS (
        UPDATE holdfast.job AS j SET gate = NULL, ready = j.due <= p_now
        WHERE j.ctid = ANY (ARRAY(SELECT g.place FROM got AS g))
        RETURNING j.id
    )
    SELECT coalesce(array_agg(f.id), '{}') FROM freed AS f
$$;

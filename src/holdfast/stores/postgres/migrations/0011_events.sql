-- min-client: 1
-- Events that have no position yet, in the order of n. Whoever appends one only adds a row and waits for nobody: that the
-- same id came twice is found when they are given positions.
CREATE TABLE holdfast.outbox (
    n bigint GENERATED ALWAYS AS IDENTITY,
    at bigint NOT NULL,
    ns integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    aggregate text COLLATE "C",
    data bytea NOT NULL,
    headers bytea,
    PRIMARY KEY (ns, n)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.01,
    toast.autovacuum_vacuum_cost_delay = 0
);

-- Events in their order. Rows are added, and removed once they are old; nothing changes them.
CREATE TABLE holdfast.event (
    position bigint NOT NULL,
    at bigint NOT NULL,
    version bigint,
    ns integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    aggregate text COLLATE "C",
    data bytea NOT NULL,
    headers bytea,
    PRIMARY KEY (ns, position),
    CONSTRAINT holdfast_event_sound CHECK ((aggregate IS NULL) = (version IS NULL))
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE UNIQUE INDEX holdfast_event_id ON holdfast.event (ns, id);
CREATE INDEX holdfast_event_topic ON holdfast.event (ns, topic, position);
CREATE INDEX holdfast_event_aggregate ON holdfast.event (ns, topic, aggregate, position) WHERE aggregate IS NOT NULL;

-- The last position that was given. Whoever gives positions or removes events has its row locked.
CREATE TABLE holdfast.event_head (
    last bigint NOT NULL,
    ns integer PRIMARY KEY,
    CONSTRAINT holdfast_event_head_sound CHECK (last BETWEEN 0 AND 9000000000000000000)
) WITH (fillfactor = 10);

-- The highest version of those aggregates of a topic of which no event is kept. The last version of any other stands with
-- its last event: those of a topic are removed from the first on.
CREATE TABLE holdfast.event_floor (
    version bigint NOT NULL,
    ns integer NOT NULL,
    topic text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, topic)
) WITH (fillfactor = 50);

-- Appends events in this order; gives the store's now. Runs as the owner, as adding does.
CREATE FUNCTION holdfast.append_v1(
    p_ns integer, p_now bigint, p_ids text[], p_topics text[], p_types text[], p_aggregates text[], p_datas bytea[],
    p_headers bytea[], p_wake text
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- least leaves nulls out. Nobody may say a later instant than now.
    v_now bigint := least(p_now, holdfast.now_v1());
BEGIN
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    INSERT INTO holdfast.outbox (ns, at, id, topic, type, aggregate, data, headers)
    SELECT p_ns, v_now, u.id, u.topic, u.type, u.aggregate, u.data, u.headers
    FROM unnest(p_ids, p_topics, p_types, p_aggregates, p_datas, p_headers) WITH ORDINALITY
         AS u(id, topic, type, aggregate, data, headers, place)
    ORDER BY u.place;
    RETURN v_now;
END
$$;
REVOKE ALL ON FUNCTION holdfast.append_v1 FROM PUBLIC;

-- The same for events as a JSON array, which every driver can send; bytes are in hexadecimal.
CREATE FUNCTION holdfast.append_json_v1(p_ns integer, p_now bigint, p_events jsonb, p_wake text) RETURNS bigint LANGUAGE sql
AS $$
    SELECT holdfast.append_v1(
        p_ns, p_now, array_agg(r.id ORDER BY n), array_agg(r.topic ORDER BY n), array_agg(r.type ORDER BY n),
        array_agg(r.aggregate ORDER BY n), array_agg(decode(r.data, 'hex') ORDER BY n),
        array_agg(decode(r.headers, 'hex') ORDER BY n), p_wake)
    FROM jsonb_array_elements(p_events) WITH ORDINALITY AS e(event, n)
    CROSS JOIN LATERAL jsonb_to_record(e.event) AS r(
        id text, topic text, type text, aggregate text, data text, headers text)
$$;

-- Gives positions to what is in the outbox and committed; whether there may be more of it, null if another is at it. One
-- whose id is stored is dropped. The answer is small, so that nobody keeps the lock by being slow to read it.
CREATE FUNCTION holdfast.sequence_v1(p_ns integer, p_limit integer) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '100ms'
AS $$
DECLARE
    v_most constant bigint := 16000000;
    v_last bigint;
    v_taken bigint;
    v_bytes bigint;
    v_placed bigint;
BEGIN
    -- The lock first, by a statement of its own: the next one then sees all that those before have placed.
    BEGIN
        SELECT h.last INTO v_last FROM holdfast.event_head AS h WHERE h.ns = p_ns FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            INSERT INTO holdfast.event_head (ns, last) VALUES (p_ns, 0) ON CONFLICT DO NOTHING;
            SELECT h.last INTO STRICT v_last FROM holdfast.event_head AS h WHERE h.ns = p_ns FOR NO KEY UPDATE;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RETURN NULL;
    END;
    WITH taken AS (
        DELETE FROM holdfast.outbox AS o
        WHERE o.ctid = ANY (ARRAY(
            SELECT s.place FROM (
                SELECT f.place, sum(f.size) OVER (ORDER BY f.n) - f.size AS before FROM (
                    SELECT i.ctid AS place, i.n, octet_length(i.data) AS size
                    FROM holdfast.outbox AS i WHERE i.ns = p_ns ORDER BY i.n LIMIT p_limit
                ) AS f
            ) AS s WHERE s.before < v_most))
        RETURNING o.*
    ), counted AS (
        SELECT t.*, row_number() OVER (PARTITION BY t.id ORDER BY t.n) AS copy FROM taken AS t
    ), placed AS (
        SELECT c.*, v_last + row_number() OVER (ORDER BY c.n) AS position,
               row_number() OVER (PARTITION BY c.topic, c.aggregate ORDER BY c.n) AS step
        FROM counted AS c
        WHERE c.copy = 1
          AND NOT EXISTS (SELECT FROM holdfast.event AS e WHERE e.ns = p_ns AND e.id = c.id OFFSET 0)
    ), kept AS (
        INSERT INTO holdfast.event (ns, position, at, version, id, topic, type, aggregate, data, headers)
        SELECT p_ns, p.position, p.at, CASE WHEN p.aggregate IS NOT NULL THEN p.step + coalesce(
                   (SELECT e.version FROM holdfast.event AS e
                    WHERE e.ns = p_ns AND e.topic = p.topic AND e.aggregate = p.aggregate ORDER BY e.position DESC LIMIT 1),
                   (SELECT f.version FROM holdfast.event_floor AS f WHERE f.ns = p_ns AND f.topic = p.topic), 0) END,
               p.id, p.topic, p.type, p.aggregate, p.data, p.headers
        FROM placed AS p ORDER BY p.position
        RETURNING position
    )
    SELECT t.rows, t.bytes, k.rows INTO v_taken, v_bytes, v_placed
    FROM (SELECT count(*) AS rows, sum(octet_length(data)) AS bytes FROM taken) AS t
    CROSS JOIN (SELECT count(*) AS rows FROM kept) AS k;
    IF v_placed > 0 THEN
        UPDATE holdfast.event_head SET last = v_last + v_placed WHERE ns = p_ns;
    END IF;
    RETURN v_taken >= p_limit OR coalesce(v_bytes >= v_most, false);
END
$$;

-- Up to so many events behind a position, and none behind so many bytes of data: all, those of a topic, or of its aggregate.
-- At last comes one row without an id: its position is the last that was given, and its version is 1 if others wait for
-- theirs.
CREATE FUNCTION holdfast.read_events_v1(
    p_ns integer, p_after bigint, p_limit integer, p_topic text, p_aggregate text, p_bytes bigint
) RETURNS TABLE (
    "position" bigint, at bigint, version bigint, id text, topic text, type text, aggregate text, data bytea, headers bytea
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    -- Before what is read: who finds none waiting there finds all with a position below.
    v_more boolean := (SELECT o.n FROM holdfast.outbox AS o WHERE o.ns = p_ns ORDER BY o.n LIMIT 1) IS NOT NULL;
    v_last bigint;
BEGIN
    -- Before the events, so that all up to there are seen.
    SELECT h.last INTO v_last FROM holdfast.event_head AS h WHERE h.ns = p_ns;
    v_last := coalesce(v_last, 0);
    IF p_topic IS NULL THEN
        RETURN QUERY
        SELECT p.position, p.at, p.version, p.id, p.topic, p.type, p.aggregate, p.data, p.headers FROM (
            SELECT s.*, sum(octet_length(s.data)) OVER (ORDER BY s.position) - octet_length(s.data) AS before FROM (
                SELECT e.* FROM holdfast.event AS e
                WHERE e.ns = p_ns AND e.position > p_after AND e.position <= v_last
                  AND (p_aggregate IS NULL OR e.aggregate = p_aggregate)
                ORDER BY e.position LIMIT p_limit
            ) AS s
        ) AS p WHERE p.before < p_bytes ORDER BY p.position;
    ELSIF p_aggregate IS NULL THEN
        RETURN QUERY
        SELECT p.position, p.at, p.version, p.id, p.topic, p.type, p.aggregate, p.data, p.headers FROM (
            SELECT s.*, sum(octet_length(s.data)) OVER (ORDER BY s.position) - octet_length(s.data) AS before FROM (
                SELECT e.* FROM holdfast.event AS e
                WHERE e.ns = p_ns AND e.topic = p_topic AND e.position > p_after AND e.position <= v_last
                ORDER BY e.topic, e.position LIMIT p_limit
            ) AS s
        ) AS p WHERE p.before < p_bytes ORDER BY p.position;
    ELSE
        RETURN QUERY
        SELECT p.position, p.at, p.version, p.id, p.topic, p.type, p.aggregate, p.data, p.headers FROM (
            SELECT s.*, sum(octet_length(s.data)) OVER (ORDER BY s.position) - octet_length(s.data) AS before FROM (
                SELECT e.* FROM holdfast.event AS e
                WHERE e.ns = p_ns AND e.topic = p_topic AND e.aggregate = p_aggregate AND e.position > p_after
                  AND e.position <= v_last
                ORDER BY e.topic, e.aggregate, e.position LIMIT p_limit
            ) AS s
        ) AS p WHERE p.before < p_bytes ORDER BY p.position;
    END IF;
    "position" := v_last;
    version := v_more::integer;
    RETURN NEXT;
END
$$;

-- Removes events that are older than that, those of a topic in p_topics only up to its position in p_passed; how many. Of each
-- topic the first ones go, up to one that must stay.
CREATE FUNCTION holdfast.prune_events_v1(
    p_ns integer, p_older_than bigint, p_topics text[], p_passed bigint[], p_limit integer
) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_before bigint;
    v_removed bigint;
    v_topics text[];
    v_aggregates text[];
    v_versions bigint[];
BEGIN
    -- Also for its lock: who gives versions must see what is gone.
    IF holdfast.sequence_v1(p_ns, 1000) IS NULL THEN
        RETURN 0;
    END IF;
    v_before := holdfast.now_v1() - p_older_than;
    WITH RECURSIVE known (topic) AS (
        (SELECT e.topic FROM holdfast.event AS e WHERE e.ns = p_ns ORDER BY e.topic LIMIT 1)
        UNION ALL
        SELECT (SELECT e.topic FROM holdfast.event AS e WHERE e.ns = p_ns AND e.topic > k.topic ORDER BY e.topic LIMIT 1)
        FROM known AS k WHERE k.topic IS NOT NULL
    ), old AS (
        SELECT s.position FROM known AS k
        CROSS JOIN LATERAL (
            SELECT i.position, bool_and(i.at < v_before) OVER (ORDER BY i.position) AS is_old FROM (
                SELECT e.position, e.at FROM holdfast.event AS e
                WHERE e.ns = p_ns AND e.topic = k.topic AND e.position <= coalesce(
                          p_passed[array_position(p_topics, k.topic)], 9223372036854775807)
                ORDER BY e.topic, e.position LIMIT p_limit
            ) AS i
        ) AS s
        WHERE v_before > (
            SELECT e.at FROM holdfast.event AS e
            WHERE e.ns = p_ns AND e.topic = k.topic ORDER BY e.topic, e.position LIMIT 1) AND s.is_old
        ORDER BY s.position LIMIT p_limit
    ), gone AS (
        DELETE FROM holdfast.event AS e
        WHERE e.ns = p_ns AND e.position = ANY (ARRAY(SELECT o.position FROM old AS o))
        RETURNING e.topic, e.aggregate, e.version
    ), lines AS (
        SELECT g.topic, g.aggregate, max(g.version) AS version, count(*) AS events FROM gone AS g GROUP BY 1, 2
    )
    SELECT coalesce(sum(l.events), 0), array_agg(l.topic), array_agg(l.aggregate), array_agg(l.version)
    INTO v_removed, v_topics, v_aggregates, v_versions FROM lines AS l;
    INSERT INTO holdfast.event_floor AS f (ns, topic, version)
    SELECT p_ns, g.topic, max(g.version) FROM unnest(v_topics, v_aggregates, v_versions) AS g(topic, aggregate, version)
    WHERE g.aggregate IS NOT NULL AND NOT EXISTS (
        SELECT FROM holdfast.event AS e WHERE e.ns = p_ns AND e.topic = g.topic AND e.aggregate = g.aggregate OFFSET 0)
    GROUP BY g.topic
    ON CONFLICT (ns, topic) DO UPDATE SET version = greatest(f.version, excluded.version);
    RETURN v_removed;
END
$$;

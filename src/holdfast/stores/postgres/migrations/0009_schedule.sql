-- min-client: 1
-- Recurring work. mark: of the last write. look_at: when to look at it. job: the one that it fired last; with waits it is to
-- be looked at as soon as that job is not live.
CREATE TABLE holdfast.schedule (
    look_at bigint,
    version bigint NOT NULL,
    job uuid,
    ns integer NOT NULL,
    waits boolean NOT NULL,
    name text COLLATE "C" NOT NULL,
    mark text NOT NULL,
    definition bytea NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (ns, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX holdfast_schedule_look ON holdfast.schedule (ns, look_at, name) WHERE look_at IS NOT NULL;
CREATE INDEX holdfast_schedule_waits ON holdfast.schedule (ns, name) WHERE waits;

-- Writes schedules, one by one in the order of their names, so that two such calls do not wait for each other; then adds the
-- jobs of those that were written, batch by batch, `of` counting from 1. Gives the places of those that were refused.
CREATE FUNCTION holdfast.schedule_put_v1(
    p_ns integer, p_now bigint, p_names text[], p_versions bigint[], p_marks text[], p_afters text[], p_looks bigint[],
    p_jobs uuid[], p_waits boolean[], p_definitions bytea[], p_states bytea[], p_fired jsonb
) RETURNS integer[] LANGUAGE plpgsql
AS $$
DECLARE
    w record;
    v_unwritten integer[] := '{}';
    v_refused integer[] := '{}';
    v_batch jsonb;
BEGIN
    FOR w IN
        SELECT * FROM unnest(p_names, p_versions, p_marks, p_afters, p_looks, p_jobs, p_waits, p_definitions, p_states)
            WITH ORDINALITY AS u(name, version, mark, after, look_at, job, waits, definition, state, place)
        ORDER BY u.name COLLATE "C", u.place
    LOOP
        IF w.version = 0 AND w.after IS NULL THEN
            INSERT INTO holdfast.schedule (ns, name, version, mark, look_at, job, waits, definition, state)
            VALUES (p_ns, w.name, 1, w.mark, w.look_at, w.job, w.waits, w.definition, w.state)
            ON CONFLICT DO NOTHING;
        ELSE
            UPDATE holdfast.schedule AS s
            SET version = s.version + 1, mark = w.mark, look_at = w.look_at, job = w.job, waits = w.waits,
                definition = w.definition, state = w.state
            WHERE s.ns = p_ns AND s.name = w.name AND s.version = w.version AND s.mark = coalesce(w.after, s.mark);
        END IF;
        IF NOT FOUND THEN
            v_unwritten := v_unwritten || w.place::integer;
            IF NOT EXISTS (
                SELECT FROM holdfast.schedule AS s
                WHERE s.ns = p_ns AND s.name = w.name AND s.version = w.version + 1 AND s.mark = w.mark)
            THEN
                v_refused := v_refused || w.place::integer;
            END IF;
        END IF;
    END LOOP;
    FOR v_batch IN SELECT b.batch FROM jsonb_array_elements(p_fired) WITH ORDINALITY AS b(batch, n) ORDER BY b.n LOOP
        IF v_unwritten <> '{}' THEN
            SELECT jsonb_agg(e.job ORDER BY e.n) INTO v_batch
            FROM jsonb_array_elements(v_batch) WITH ORDINALITY AS e(job, n)
            WHERE (e.job ->> 'of')::integer <> ALL (v_unwritten);
            CONTINUE WHEN v_batch IS NULL;
        END IF;
        PERFORM holdfast.add_json_v1(p_ns, p_now, v_batch, NULL);
    END LOOP;
    RETURN v_refused;
END
$$;

-- The same under a term, if there is one; null if the lock is not held under it. A schedule that somebody else has locked
-- for long, or whose jobs need a key that is, is refused alone.
CREATE FUNCTION holdfast.schedule_write_v1(
    p_ns integer, p_lock text, p_owner text, p_token bigint, p_names text[], p_versions bigint[], p_marks text[],
    p_afters text[], p_looks bigint[], p_jobs uuid[], p_waits boolean[], p_definitions bytea[], p_states bytea[],
    p_fired jsonb, p_wake text
) RETURNS integer[] LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
SET lock_timeout = '1s'
AS $$
DECLARE
    v_until bigint;
    v_now bigint;
    v_refused integer[] := '{}';
BEGIN
    IF p_lock IS NOT NULL THEN
        -- Until the commit nobody else can take or free the lock, whatever the time. Its holder can renew it.
        SELECT k.until INTO v_until FROM holdfast.lock AS k
        WHERE k.ns = p_ns AND k.name = p_lock AND k.owner = p_owner AND k.token = p_token FOR KEY SHARE;
        IF v_until IS NULL OR v_until <= holdfast.now_v1() THEN
            RETURN NULL;
        END IF;
    END IF;
    v_now := holdfast.now_v1();
    IF p_wake IS NOT NULL THEN
        PERFORM pg_notify(split_part(p_wake, ' ', 1), split_part(p_wake, ' ', 2));
    END IF;
    BEGIN
        RETURN holdfast.schedule_put_v1(
            p_ns, v_now, p_names, p_versions, p_marks, p_afters, p_looks, p_jobs, p_waits, p_definitions, p_states, p_fired);
    EXCEPTION WHEN lock_not_available THEN
        PERFORM set_config('lock_timeout', '10ms', true);
    END;
    FOR v_place IN 1 .. cardinality(p_names) LOOP
        BEGIN
            IF holdfast.schedule_put_v1(
                p_ns, v_now, p_names[v_place:v_place], p_versions[v_place:v_place], p_marks[v_place:v_place],
                p_afters[v_place:v_place], p_looks[v_place:v_place], p_jobs[v_place:v_place], p_waits[v_place:v_place],
                p_definitions[v_place:v_place], p_states[v_place:v_place], (
                    SELECT jsonb_build_array(jsonb_agg(e.job || '{"of": 1}'))
                    FROM jsonb_array_elements(p_fired) AS b(batch) CROSS JOIN jsonb_array_elements(b.batch) AS e(job)
                    WHERE (e.job ->> 'of')::integer = v_place HAVING count(*) > 0)) <> '{}'
            THEN
                v_refused := v_refused || v_place;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            v_refused := v_refused || v_place;
        END;
    END LOOP;
    RETURN v_refused;
END
$$;

-- Schedules by their names, in that order, with what became of their jobs.
CREATE FUNCTION holdfast.schedules_v1(p_ns integer, p_names text[]) RETURNS TABLE (
    place bigint, name text, version bigint, mark text, definition bytea, state bytea, look_at bigint, job uuid, waits boolean,
    live boolean, started bigint, finished bigint
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.place, s.name, s.version, s.mark, s.definition, s.state, s.look_at, s.job, s.waits, l.live IS NOT NULL,
           coalesce(l.started, d.started), d.finished
    FROM unnest(p_names) WITH ORDINALITY AS u(name, place)
    CROSS JOIN LATERAL (SELECT * FROM holdfast.schedule AS i WHERE i.ns = p_ns AND i.name = u.name OFFSET 0) AS s
    LEFT JOIN LATERAL (
        SELECT true AS live, i.started FROM holdfast.live AS i WHERE i.ns = p_ns AND i.id = s.job OFFSET 0
    ) AS l ON true
    LEFT JOIN LATERAL (
        SELECT i.started, i.finished FROM holdfast.done AS i
        WHERE l.live IS NULL AND i.ns = p_ns AND i.id = s.job OFFSET 0
    ) AS d ON true
    ORDER BY u.place;
END
$$;

-- The names of those to be looked at now, and how long until the next.
CREATE FUNCTION holdfast.schedules_due_v1(
    p_ns integer, p_limit integer, OUT now bigint, OUT next_look bigint, OUT names text[]
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    now := holdfast.now_v1();
    names := ARRAY(
        SELECT s.name FROM holdfast.schedule AS s
        WHERE s.ns = p_ns AND s.look_at <= now ORDER BY s.look_at, s.name LIMIT p_limit + 1);
    IF cardinality(names) > p_limit THEN
        names := names[:p_limit];
        next_look := 0;
    ELSE
        SELECT s.look_at - now INTO next_look FROM holdfast.schedule AS s
        WHERE s.ns = p_ns AND s.look_at > now ORDER BY s.look_at LIMIT 1;
    END IF;
    IF cardinality(names) < p_limit THEN
        names := names || ARRAY(
            SELECT s.name FROM holdfast.schedule AS s
            WHERE s.ns = p_ns AND s.waits AND (s.look_at <= now) IS NOT TRUE
              AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = s.job OFFSET 0)
            ORDER BY s.name LIMIT p_limit - cardinality(names));
    END IF;
END
$$;

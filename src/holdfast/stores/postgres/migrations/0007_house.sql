-- min-client: 1
-- These change tables, so they run as their owner, whoever calls. Nobody waits long for them: a lock that is not to be had
-- soon is asked for again a minute later, by whoever comes then.

-- Makes the partitions of the day of an instant, and of the two that follow. A day that the rest already has rows of
-- stays there.
CREATE FUNCTION holdfast.make_days_v1(p_now bigint) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
AS $$
DECLARE
    v_now constant bigint := holdfast.now_v1();
    v_day constant bigint := 86400000000;
    v_from bigint := p_now - p_now % v_day;
    v_name text;
    v_table text;
BEGIN
    IF p_now IS NULL OR p_now < 0 OR abs(p_now - v_now) > 400 * v_day THEN
        RAISE EXCEPTION 'no days are made around %, too far from now', p_now USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast.day', 0)) THEN
        RETURN;
    END IF;
    DELETE FROM holdfast.day WHERE NOT made AND upto <= v_now;
    INSERT INTO holdfast.day (name, upto)
    SELECT to_char(to_timestamp(n / 1000000) AT TIME ZONE 'UTC', 'YYYYMMDD'), n + v_day
    FROM generate_series(v_from, v_from + 2 * v_day, v_day) AS n ON CONFLICT DO NOTHING;
    UPDATE holdfast.day SET made = true WHERE NOT made AND to_regclass('holdfast.done_' || name) IS NOT NULL;
    FOR v_name, v_from IN
        SELECT name, upto - v_day FROM holdfast.day WHERE NOT made AND again <= v_now ORDER BY upto
    LOOP
        BEGIN
            FOREACH v_table IN ARRAY ARRAY['done', 'attempt'] LOOP
                -- Made apart and then attached: whoever writes to other days waits only for the look at the rest.
                EXECUTE format('CREATE TABLE holdfast.%1$s_%2$s (LIKE holdfast.%1$s INCLUDING ALL)', v_table, v_name);
                EXECUTE format(
                    'ALTER TABLE holdfast.%1$s ATTACH PARTITION holdfast.%1$s_%2$s FOR VALUES FROM (%3$L) TO (%4$L)',
                    v_table, v_name, holdfast.id_at_v1(v_from), holdfast.id_at_v1(v_from + v_day));
            END LOOP;
            UPDATE holdfast.day SET made = true WHERE name = v_name;
            -- Each look at the rest keeps others waiting, so they come one by one.
            EXIT WHEN EXISTS (SELECT FROM holdfast.done_other);
        EXCEPTION
            WHEN lock_not_available THEN
                UPDATE holdfast.day SET again = greatest(again, v_now + 60000000) WHERE NOT made;
                EXIT;
            WHEN check_violation THEN
                UPDATE holdfast.day SET again = upto WHERE name = v_name;
        END;
    END LOOP;
END
$$;

-- Whether some namespace still keeps jobs of a day that ended then.
CREATE FUNCTION holdfast.is_kept_v1(p_upto bigint, p_now bigint) RETURNS boolean LANGUAGE sql VOLATILE
AS $$
    SELECT EXISTS (
        SELECT FROM holdfast.namespace AS n
        WHERE (n.retention IS NULL OR p_upto > p_now - n.retention)
          AND EXISTS (
              SELECT FROM holdfast.done AS d
              WHERE d.ns = n.id AND d.id >= holdfast.id_at_v1(p_upto - 86400000000) AND d.id < holdfast.id_at_v1(p_upto)))
$$;

-- Drops a day that no namespace keeps any more: moves what must stay to the rest, drops the tables. Reads little of it,
-- because rows lie in the order of their end, and those that must stay are found by indexes.
-- How many jobs it removed; 0 if others have the tables, or too much of them must stay.
CREATE FUNCTION holdfast.drop_day_v1(p_name text) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
AS $$
DECLARE
    v_now constant bigint := holdfast.now_v1();
    v_most constant integer := 2000;
    v_since constant bigint := v_now - (SELECT coalesce(max(retention), v_now) FROM holdfast.namespace);
    v_upto bigint;
    v_stay uuid[];
    v_stay_ns integer[];
    v_told uuid[];
    v_told_ns integer[];
    v_told_tokens bigint[];
    v_removed bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast.day', 0)) THEN
        RETURN 0;
    END IF;
    -- Only what stands in day is the name of a table.
    UPDATE holdfast.day SET again = v_now + 60000000
    WHERE name = p_name AND made AND again <= v_now AND upto <= v_now RETURNING upto INTO v_upto;
    IF NOT FOUND OR holdfast.is_kept_v1(v_upto, v_now) THEN
        RETURN 0;
    END IF;
    BEGIN
        EXECUTE format('LOCK TABLE holdfast.done_%1$s, holdfast.attempt_%1$s IN SHARE ROW EXCLUSIVE MODE', p_name);
        EXECUTE format(
            'SELECT array_agg(s.ns), array_agg(s.id) FROM ('
            'SELECT d.ns, d.id FROM holdfast.done_%1$s AS d WHERE d.state = 6 UNION '
            'SELECT d.ns, d.id FROM holdfast.done_%1$s AS d LEFT JOIN holdfast.namespace AS n ON n.id = d.ns '
            'WHERE d.finished >= $1 AND coalesce(d.finished >= $2 - n.retention, true) LIMIT $3) AS s', p_name)
            INTO v_stay_ns, v_stay USING v_since, v_now, v_most + 1;
        EXECUTE format(
            'SELECT array_agg(s.ns), array_agg(s.job), array_agg(s.token) FROM ('
            'SELECT a.ns, a.job, a.token FROM holdfast.attempt_%1$s AS a '
            'WHERE EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = a.ns AND j.id = a.job) '
            'OR (a.ns, a.job) IN (SELECT * FROM unnest($1, $2)) LIMIT $3) AS s', p_name)
            INTO v_told_ns, v_told, v_told_tokens USING v_stay_ns, v_stay, v_most + 1;
        IF cardinality(v_stay) > v_most OR cardinality(v_told) > v_most THEN
            -- It is emptied row by row, and looked at again when there may be less.
            UPDATE holdfast.day SET again = v_now + 3600000000 WHERE name = p_name;
            RETURN 0;
        END IF;
        WITH gone AS (
            DELETE FROM holdfast.tally WHERE part = to_regclass(format('holdfast.done_%s', p_name)) RETURNING jobs
        )
        SELECT coalesce(sum(jobs), 0) - coalesce(cardinality(v_stay), 0) INTO v_removed FROM gone;
        -- From here on whoever ends a job waits; what is left to do is little, and each row is found by its key.
        EXECUTE format('ALTER TABLE holdfast.done DETACH PARTITION holdfast.done_%s', p_name);
        EXECUTE format('ALTER TABLE holdfast.attempt DETACH PARTITION holdfast.attempt_%s', p_name);
        EXECUTE format(
            'WITH kept AS ('
            'INSERT INTO holdfast.done SELECT d.* FROM unnest($1, $2) AS s(ns, id) '
            'CROSS JOIN LATERAL (SELECT * FROM holdfast.done_%s WHERE ns = s.ns AND id = s.id OFFSET 0) AS d '
            'RETURNING ns, queue, state, tableoid AS part) '
            'INSERT INTO holdfast.tally (ns, queue, state, part, jobs) '
            'SELECT ns, queue, state, part, count(*) FROM kept GROUP BY 1, 2, 3, 4', p_name)
            USING v_stay_ns, v_stay;
        EXECUTE format(
            'INSERT INTO holdfast.attempt SELECT a.* FROM unnest($1, $2, $3) AS s(ns, job, token) CROSS JOIN LATERAL '
            '(SELECT * FROM holdfast.attempt_%s WHERE ns = s.ns AND job = s.job AND token = s.token OFFSET 0) AS a', p_name)
            USING v_told_ns, v_told, v_told_tokens;
        EXECUTE format('DROP TABLE holdfast.done_%1$s, holdfast.attempt_%1$s', p_name);
        DELETE FROM holdfast.day WHERE name = p_name;
        RETURN v_removed;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 0;
    END;
END
$$;

-- Removes what finished before the namespace's retention; how many jobs. A day is dropped whole once nobody keeps any of
-- it; rows are removed one by one where that would be too late. Also sweeps up leftovers that nobody asks for.
CREATE FUNCTION holdfast.prune_v1(p_ns integer, p_older_than bigint, p_limit integer) RETURNS bigint LANGUAGE plpgsql
SET lock_timeout = '2s'
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
    v_before bigint := v_now - p_older_than;
    v_name text;
    v_ids uuid[];
    v_removed bigint;
BEGIN
    UPDATE holdfast.namespace SET retention = p_older_than WHERE id = p_ns AND retention IS DISTINCT FROM p_older_than;
    IF p_older_than < 86400000000 THEN
        -- A day is too long to wait for. Rows lie almost in the order in which jobs ended.
        v_ids := ARRAY(
            SELECT s.id FROM (
                SELECT d.id, d.finished FROM holdfast.done AS d
                WHERE d.ns = p_ns AND d.state <> 6 AND d.finished < v_before LIMIT 50 * p_limit
            ) AS s ORDER BY s.finished LIMIT p_limit);
    ELSE
        v_ids := ARRAY(
            SELECT o.id FROM holdfast.done_other AS o
            WHERE o.ns = p_ns AND o.state <> 6 AND o.finished < v_before ORDER BY o.finished LIMIT p_limit);
        -- Days that others keep, or too much of which stays.
        v_ids := v_ids || ARRAY(
            SELECT s.id FROM holdfast.day AS k
            CROSS JOIN LATERAL (
                SELECT d.id FROM holdfast.done AS d
                WHERE d.ns = p_ns AND d.id >= holdfast.id_at_v1(k.upto - 86400000000) AND d.id < holdfast.id_at_v1(k.upto)
                  AND d.state <> 6 AND d.finished < v_before
                ORDER BY d.id LIMIT p_limit
            ) AS s
            WHERE k.made AND k.upto <= v_before AND (k.again > v_now + 60000000 OR holdfast.is_kept_v1(k.upto, v_now))
            LIMIT p_limit - cardinality(v_ids));
    END IF;
    -- Asked again: one that was removed meanwhile may have been added anew.
    WITH gone AS (
        DELETE FROM holdfast.done WHERE ns = p_ns AND id = ANY (v_ids) AND state <> 6 AND finished < v_before
        RETURNING id, queue, state, tableoid AS part
    ), counted AS (
        INSERT INTO holdfast.tally (ns, queue, state, part, jobs)
        SELECT p_ns, queue, state, part, -count(*) FROM gone GROUP BY queue, state, part
    )
    SELECT coalesce(array_agg(id), '{}') INTO v_ids FROM gone;
    PERFORM holdfast.forget_beside_v1(p_ns, v_ids);
    v_removed := cardinality(v_ids);

    DELETE FROM holdfast.key AS k
    WHERE k.ns = p_ns AND k.until <= v_now
      AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = k.job);
    DELETE FROM holdfast.lease AS l
    WHERE l.ns = p_ns AND l.until < v_now AND NOT EXISTS (
        SELECT FROM holdfast.job AS j
        WHERE j.ns = p_ns AND j.id = l.job AND j.token = l.token AND j.worker IS NOT NULL);
    PERFORM holdfast.sweep_flow_v1(p_ns, v_now, p_limit);
    -- Not while a day is dropped, which would miss the sums of its jobs.
    IF (SELECT count(*) > 1000 FROM holdfast.tally WHERE ns = p_ns)
        AND pg_try_advisory_xact_lock(hashtextextended('holdfast.day', 0))
    THEN
        WITH summed AS (
            DELETE FROM holdfast.tally WHERE ns = p_ns RETURNING queue, state, part, jobs
        )
        INSERT INTO holdfast.tally (ns, queue, state, part, jobs)
        SELECT p_ns, queue, state, part, sum(jobs) FROM summed GROUP BY queue, state, part HAVING sum(jobs) <> 0;
    END IF;

    -- Last, and one of the two, because the locks that they take are kept until the commit.
    IF (SELECT count(*) < 3 FROM holdfast.day WHERE upto > v_now AND (made OR again > v_now)) THEN
        PERFORM holdfast.make_days_v1(v_now);
    ELSE
        SELECT d.name INTO v_name FROM holdfast.day AS d
        WHERE d.made AND d.upto <= v_before AND d.again <= v_now AND NOT holdfast.is_kept_v1(d.upto, v_now)
        ORDER BY d.upto LIMIT 1;
        IF FOUND THEN
            v_removed := v_removed + holdfast.drop_day_v1(v_name);
        END IF;
    END IF;
    RETURN v_removed;
END
$$;

-- Adding runs as the owner too, so that those who may add need no right to change or delete what is there.
ALTER FUNCTION holdfast.add_v1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION holdfast.add_fresh_v1 SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE ALL ON FUNCTION holdfast.add_v1, holdfast.add_fresh_v1, holdfast.make_days_v1, holdfast.drop_day_v1 FROM PUBLIC;

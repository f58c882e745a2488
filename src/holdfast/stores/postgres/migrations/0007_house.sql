-- min-client: 1
-- These change tables, so they run as their owner.

-- Makes the partitions of the coming days. A day that the rest already has rows of stays there.
CREATE FUNCTION holdfast.make_days_v1(p_now bigint) RETURNS void LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '100ms'
AS $$
DECLARE
    v_day constant bigint := 86400000000;
    v_from bigint := p_now - p_now % v_day;
    v_name text;
    v_table text;
BEGIN
    FOR v_ahead IN 0 .. 2 LOOP
        v_name := to_char(to_timestamp(v_from / 1000000) AT TIME ZONE 'UTC', 'YYYYMMDD');
        BEGIN
            IF NOT EXISTS (SELECT FROM holdfast.day WHERE name = v_name) THEN
                INSERT INTO holdfast.day (name, upto) VALUES (v_name, v_from + v_day);
                FOREACH v_table IN ARRAY ARRAY['done', 'attempt'] LOOP
                    -- Made apart and then attached, which nobody who writes has to wait for.
                    EXECUTE format('CREATE TABLE holdfast.%1$s_%2$s (LIKE holdfast.%1$s INCLUDING ALL)', v_table, v_name);
                    EXECUTE format(
                        'ALTER TABLE holdfast.%1$s ATTACH PARTITION holdfast.%1$s_%2$s FOR VALUES FROM (%3$L) TO (%4$L)',
                        v_table, v_name, holdfast.id_at_v1(v_from), holdfast.id_at_v1(v_from + v_day));
                END LOOP;
            END IF;
        EXCEPTION WHEN lock_not_available OR check_violation OR unique_violation OR duplicate_table THEN
            RAISE DEBUG 'holdfast: no partition for % yet: %', v_name, SQLERRM;
        END;
        v_from := v_from + v_day;
    END LOOP;
END
$$;

-- Drops a day that no namespace keeps any more: counts it, moves what must stay to the rest, drops the tables.
-- How many jobs it removed; 0 if others have the tables, or too much of them must stay.
CREATE FUNCTION holdfast.drop_day_v1(p_name text, p_now bigint) RETURNS bigint LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '100ms'
AS $$
DECLARE
    v_removed bigint;
    v_stay bigint;
    v_must_stay constant text := 'd.state = 6 OR d.finished >= %L - (SELECT n.retention FROM holdfast.namespace AS n WHERE n.id = d.ns)';
BEGIN
    EXECUTE format('LOCK TABLE holdfast.done_%1$s, holdfast.attempt_%1$s IN SHARE ROW EXCLUSIVE MODE', p_name);
    EXECUTE format(
        'SELECT count(*), count(*) FILTER (WHERE ' || v_must_stay || ') FROM holdfast.done_%s AS d', p_now, p_name)
        INTO v_removed, v_stay;
    IF v_stay > 20000 THEN
        RETURN 0;
    END IF;
    EXECUTE format(
        'INSERT INTO holdfast.tally (ns, queue, state, jobs) SELECT d.ns, d.queue, d.state, -count(*) '
        'FROM holdfast.done_%2$s AS d WHERE NOT (' || replace(v_must_stay, '%L', '%1$L') || ') GROUP BY 1, 2, 3',
        p_now, p_name);
    -- From here on whoever ends a job waits; what is left to do is little.
    EXECUTE format('ALTER TABLE holdfast.done DETACH PARTITION holdfast.done_%s', p_name);
    EXECUTE format('ALTER TABLE holdfast.attempt DETACH PARTITION holdfast.attempt_%s', p_name);
    EXECUTE format(
        'INSERT INTO holdfast.done SELECT d.* FROM holdfast.done_%2$s AS d WHERE '
        || replace(v_must_stay, '%L', '%1$L'), p_now, p_name);
    EXECUTE format(
        'INSERT INTO holdfast.attempt SELECT a.* FROM holdfast.attempt_%s AS a '
        'WHERE EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = a.ns AND j.id = a.job) '
        'OR EXISTS (SELECT FROM holdfast.done AS d WHERE d.ns = a.ns AND d.id = a.job)', p_name);
    EXECUTE format('DROP TABLE holdfast.done_%1$s, holdfast.attempt_%1$s', p_name);
    DELETE FROM holdfast.day WHERE name = p_name;
    RETURN v_removed - v_stay;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;

-- Removes what finished before the namespace's retention, whole days where that can be; how many jobs. Also sweeps up
-- leftovers that nobody asks for.
CREATE FUNCTION holdfast.prune_v1(p_ns integer, p_older_than bigint, p_limit integer) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    v_now bigint := holdfast.now_v1();
    v_before bigint := v_now - p_older_than;
    v_name text;
    v_ids uuid[];
    v_removed bigint := 0;
BEGIN
    PERFORM holdfast.make_days_v1(v_now);
    UPDATE holdfast.namespace SET retention = p_older_than WHERE id = p_ns AND retention IS DISTINCT FROM p_older_than;
    SELECT d.name INTO v_name FROM holdfast.day AS d
    WHERE d.upto <= v_before AND NOT EXISTS (
        SELECT FROM holdfast.namespace AS n
        WHERE (n.retention IS NULL OR d.upto > v_now - n.retention)
          AND EXISTS (
              SELECT FROM holdfast.done AS f
              WHERE f.ns = n.id AND f.id >= holdfast.id_at_v1(d.upto - 86400000000) AND f.id < holdfast.id_at_v1(d.upto)))
    ORDER BY d.upto LIMIT 1;
    IF FOUND THEN
        v_removed := holdfast.drop_day_v1(v_name, v_now);
    END IF;
    IF v_removed = 0 THEN
        v_ids := ARRAY(
            SELECT o.id FROM holdfast.done_other AS o
            WHERE o.ns = p_ns AND o.state <> 6 AND o.finished < v_before ORDER BY o.finished LIMIT p_limit);
        IF p_older_than < 86400000000 AND cardinality(v_ids) < p_limit THEN
            -- A day is too long to wait for.
            v_ids := v_ids || ARRAY(
                SELECT d.id FROM holdfast.done AS d
                WHERE d.ns = p_ns AND d.state <> 6 AND d.finished < v_before AND d.id <> ALL (v_ids)
                LIMIT p_limit - cardinality(v_ids));
        END IF;
        PERFORM holdfast.forget_v1(p_ns, v_ids);
        v_removed := cardinality(v_ids);
    END IF;

    DELETE FROM holdfast.key AS k
    WHERE k.ns = p_ns AND k.until <= v_now
      AND NOT EXISTS (SELECT FROM holdfast.job AS j WHERE j.ns = p_ns AND j.id = k.job);
    DELETE FROM holdfast.lease AS l
    WHERE l.ns = p_ns AND l.until < v_now AND NOT EXISTS (
        SELECT FROM holdfast.job AS j
        WHERE j.ns = p_ns AND j.id = l.job AND j.token = l.token AND j.worker IS NOT NULL);
    IF (SELECT count(*) > 1000 FROM holdfast.tally WHERE ns = p_ns) THEN
        WITH summed AS (
            DELETE FROM holdfast.tally WHERE ns = p_ns RETURNING queue, state, jobs
        )
        INSERT INTO holdfast.tally (ns, queue, state, jobs)
        SELECT p_ns, queue, state, sum(jobs) FROM summed GROUP BY queue, state HAVING sum(jobs) <> 0;
    END IF;
    RETURN v_removed;
END
$$;

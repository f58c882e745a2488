-- name: live_by_id
SELECT {records} FROM holdfast_job AS j LEFT JOIN holdfast_body AS b ON b.pk = j.pk
WHERE j.ns = :ns AND j.id IN (SELECT value FROM json_each(:ids));

-- name: done_by_id
SELECT {records_done} FROM holdfast_done AS j LEFT JOIN holdfast_body AS b ON b.pk = j.body
WHERE j.ns = :ns AND j.id IN (SELECT value FROM json_each(:ids));

-- name: attempts_by_token
SELECT json_group_array(json_array(
    a.job, a.run, a.token, a.worker, a.closer, a.started, a.finished, a.outcome, a.reason, a.error))
FROM json_each(:pairs) AS p CROSS JOIN holdfast_attempt AS a
WHERE a.ns = :ns AND a.job = json_extract(p.value, '$[0]') AND a.token = json_extract(p.value, '$[1]');

-- name: folded_by_token
SELECT json_group_array(json_array(
    d.id, d.run, d.token, d.ran_by, NULL, d.started, d.finished, 'success', d.reason, d.error))
FROM json_each(:pairs) AS p CROSS JOIN holdfast_done AS d
WHERE d.ns = :ns AND d.id = json_extract(p.value, '$[0]') AND d.token = json_extract(p.value, '$[1]')
  AND d.ran_by IS NOT NULL;

-- name: history
SELECT json_group_array(json_array(job, run, token, worker, closer, started, finished, outcome, reason, error))
FROM (
    SELECT * FROM (
        SELECT job, run, token, worker, closer, started, finished, outcome, reason, error
        FROM holdfast_attempt WHERE ns = :ns AND job = :job
        UNION ALL
        SELECT id, run, token, ran_by, NULL, started, coalesce(finished, 0), 'success', reason, error
        FROM holdfast_done WHERE ns = :ns AND id = :job AND ran_by IS NOT NULL
    ) ORDER BY token
);

-- name: expired
SELECT {records} FROM (
    SELECT * FROM holdfast_job
    WHERE ns = :ns AND worker IS NOT NULL AND lease_until <= :now
    ORDER BY lease_until, id LIMIT :limit
) AS j LEFT JOIN holdfast_body AS b ON b.pk = j.pk;

-- name: find
SELECT {records} FROM (
    SELECT * FROM holdfast_job WHERE ns = :ns {conditions} ORDER BY id DESC LIMIT :limit
) AS j LEFT JOIN holdfast_body AS b ON b.pk = j.pk;

-- name: find_done
SELECT {records_done} FROM (
    SELECT * FROM holdfast_done WHERE ns = :ns {conditions} ORDER BY id DESC LIMIT :limit
) AS j LEFT JOIN holdfast_body AS b ON b.pk = j.body;

-- name: finished
SELECT coalesce(sum(jobs), 0) FROM holdfast_tally WHERE ns = :ns AND state = :state{conditions};

-- name: count
SELECT json_group_array(json_array(queue, state, jobs, due, parked)) FROM (
    SELECT queue, state, sum(jobs) AS jobs, sum(due) AS due, sum(parked) AS parked FROM (
        SELECT queue, state, count(*) AS jobs, count(*) AS due, 0 AS parked
        FROM holdfast_job WHERE ns = :ns AND ready = 1 GROUP BY queue, state
        UNION ALL
        SELECT queue, state, count(*), sum(due <= :now), 0
        FROM holdfast_job WHERE ns = :ns AND ready = 0 GROUP BY queue, state
        UNION ALL
        SELECT queue, state, count(*), 0, count(*)
        FROM holdfast_job WHERE ns = :ns AND gate IS NOT NULL GROUP BY queue, state
        UNION ALL
        SELECT queue, state, count(*), 0, 0
        FROM holdfast_job WHERE ns = :ns AND worker IS NOT NULL GROUP BY queue, state
        UNION ALL
        SELECT queue, state, jobs, 0, 0 FROM holdfast_tally WHERE ns = :ns AND jobs > 0
    ) GROUP BY queue, state ORDER BY queue, state
);

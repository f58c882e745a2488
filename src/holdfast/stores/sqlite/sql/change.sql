-- name: forget_live
DELETE FROM holdfast_job WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids));

-- name: forget_done
DELETE FROM holdfast_done WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids));

-- name: forget_bodies
DELETE FROM holdfast_body WHERE pk IN (
    SELECT pk FROM holdfast_job WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids))
    UNION ALL
    SELECT body FROM holdfast_done WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids))
);

-- name: forget_attempts
DELETE FROM holdfast_attempt WHERE ns = :ns AND job IN (SELECT value FROM json_each(:ids));

-- name: forget_keys
DELETE FROM holdfast_key
WHERE ns = :ns AND (key, job) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:pairs)
);

-- name: start
UPDATE holdfast_job SET state = :state, version = :version, started = :started WHERE ns = :ns AND id = :id;

-- name: ask_cancel
UPDATE holdfast_job SET cancel_asked = 1, version = version + 1
WHERE ns = :ns AND id = :id AND version = :version AND worker IS NOT NULL;

-- name: tally
INSERT INTO holdfast_tally (ns, queue, state, jobs)
SELECT :ns, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
FROM json_each(:rows) WHERE true
ON CONFLICT (ns, queue, state) DO UPDATE SET jobs = jobs + excluded.jobs;

-- name: ended_by_id
-- What waits for these finished jobs is told that they are gone, as if cancelled.
SELECT json_group_array(json_array(id, queue, task, 7, limit_key, sequence, halts))
FROM holdfast_done WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids));

-- name: prunable
SELECT json_group_array(json_array(id, queue, state, key)) FROM (
    SELECT id, queue, state, key FROM holdfast_done
    WHERE ns = :ns AND state <> 6 AND finished < :before ORDER BY finished, pk LIMIT :limit
);

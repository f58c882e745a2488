-- name: lines_mark
-- The lines at gates where something made room.
UPDATE holdfast_line SET opens = 0
WHERE ns = :ns AND gate IN (SELECT value FROM json_each(:gates)) AND coalesce(opens, 1) <> 0;

-- name: lines_mark_keys
UPDATE holdfast_line SET opens = 0
WHERE ns = :ns AND gate >= 'key:' AND gate < 'key;' AND coalesce(opens, 1) <> 0;

-- name: lines_open
SELECT EXISTS (SELECT 1 FROM holdfast_worker WHERE ns = :ns AND id = :worker AND live_until > :now),
       (SELECT json_group_array(json_array(gate, queue, task)) FROM (
            SELECT gate, queue, task FROM holdfast_line INDEXED BY holdfast_line_opens
            WHERE ns = :ns AND opens <= :now LIMIT :most));

-- name: lines_of
SELECT json_group_array(json_array(l.gate, l.queue, l.task))
FROM json_each(:gates) AS g CROSS JOIN holdfast_line AS l WHERE l.ns = :ns AND l.gate = g.value;

-- name: lines_free
-- The first jobs of each line are ready again.
UPDATE holdfast_job SET gate = NULL, ready = 1 WHERE pk IN (
    SELECT p.value FROM json_each(:lines) AS f CROSS JOIN json_each((
        SELECT json_group_array(pk) FROM (
            SELECT pk FROM holdfast_job INDEXED BY holdfast_job_parked
            WHERE ns = :ns AND gate = json_extract(f.value, '$[0]') AND queue = json_extract(f.value, '$[1]')
              AND task = json_extract(f.value, '$[2]')
            ORDER BY priority, rank, id LIMIT :room))) AS p
);

-- name: turns_free
-- Of each sequence the job whose turn it is.
UPDATE holdfast_job SET gate = NULL, ready = due <= :now
WHERE pk IN (
    SELECT coalesce(
        (SELECT coalesce((SELECT pk FROM holdfast_job INDEXED BY holdfast_job_id WHERE ns = :ns AND id = h.job), 0)
         FROM holdfast_halt AS h WHERE h.ns = :ns AND h.sequence = s.value),
        (SELECT pk FROM holdfast_job INDEXED BY holdfast_job_turn
         WHERE ns = :ns AND sequence = s.value ORDER BY turn LIMIT 1))
    FROM json_each(:sequences) AS s
) AND gate = 'sequence:' || sequence;

-- name: lines_settle
UPDATE holdfast_line AS l SET opens = e.opens
FROM (SELECT json_extract(f.value, '$[0]') AS gate, json_extract(f.value, '$[1]') AS queue,
             json_extract(f.value, '$[2]') AS task, json_extract(f.value, '$[3]') AS opens
      FROM json_each(:rows) AS f LIMIT -1) AS e
WHERE l.ns = :ns AND l.gate = e.gate AND l.queue = e.queue AND l.task = e.task;

-- name: lines_forget
-- Those of the lines that are empty.
DELETE FROM holdfast_line WHERE ns = :ns AND (gate, queue, task) IN (
    SELECT json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]')
    FROM json_each(:rows) AS f)
  AND NOT EXISTS (
    SELECT 1 FROM holdfast_job AS j INDEXED BY holdfast_job_parked
    WHERE j.ns = :ns AND j.gate = holdfast_line.gate AND j.queue = holdfast_line.queue
      AND j.task = holdfast_line.task);

-- name: lines_add
INSERT INTO holdfast_line (ns, gate, queue, task, opens)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]'),
       json_extract(f.value, '$[3]')
FROM json_each(:rows) AS f WHERE true
ON CONFLICT (ns, gate, queue, task)
DO UPDATE SET opens = coalesce(min(opens, excluded.opens), opens, excluded.opens);

-- name: rates_keep
INSERT INTO holdfast_rate (ns, gate, last)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]') FROM json_each(:rows) AS f WHERE true
ON CONFLICT (ns, gate) DO UPDATE SET last = excluded.last;

-- name: rates_open
-- When the lines of gates open whose rate was used.
UPDATE holdfast_line AS l SET opens = coalesce(min(l.opens, e.opens), e.opens)
FROM (SELECT json_extract(f.value, '$[0]') AS gate, json_extract(f.value, '$[2]') AS opens
      FROM json_each(:rows) AS f LIMIT -1) AS e
WHERE l.ns = :ns AND l.gate = e.gate;

-- name: leased_by_place
SELECT json_group_array(json_array(queue, task, jobs)) FROM (
    SELECT queue, task, count(*) AS jobs FROM holdfast_job INDEXED BY holdfast_job_leased
    WHERE ns = :ns AND worker IS NOT NULL GROUP BY queue, task
);

-- name: rates
SELECT json_group_array(json_array(r.gate, r.last))
FROM json_each(:gates) AS g CROSS JOIN holdfast_rate AS r WHERE r.ns = :ns AND r.gate = g.value;

-- name: keys_leased
SELECT json_group_array((
    SELECT count(*) FROM holdfast_job INDEXED BY holdfast_job_limit_key
    WHERE ns = :ns AND limit_key = k.value AND worker IS NOT NULL
)) FROM json_each(:keys) AS k;

-- name: sequences_next
-- Of each sequence the job whose turn it is, 0 if it is finished, and whether one is leased.
SELECT json_group_array(json_array(coalesce(
        (SELECT coalesce((SELECT pk FROM holdfast_job INDEXED BY holdfast_job_id WHERE ns = :ns AND id = h.job), 0)
         FROM holdfast_halt AS h WHERE h.ns = :ns AND h.sequence = s.value),
        (SELECT pk FROM holdfast_job INDEXED BY holdfast_job_turn
         WHERE ns = :ns AND sequence = s.value ORDER BY turn LIMIT 1)),
    EXISTS (SELECT 1 FROM holdfast_job INDEXED BY holdfast_job_sequence
            WHERE ns = :ns AND sequence = s.value AND worker IS NOT NULL)))
FROM json_each(:sequences) AS s;

-- name: candidates
SELECT json_group_array(json_array(pk, task, limit_key, sequence)) FROM (
    SELECT pk, task, CASE WHEN typeof(limit_key) = 'text' THEN limit_key END AS limit_key,
           CASE WHEN typeof(sequence) = 'text' THEN sequence END AS sequence
    FROM holdfast_job INDEXED BY holdfast_job_ready
    WHERE ns = :ns AND queue = :queue AND ready = 1 AND task IN (SELECT value FROM json_each(:tasks))
      AND NOT EXISTS (SELECT 1 FROM holdfast_queue WHERE ns = :ns AND name = :queue AND paused = 1)
    ORDER BY priority, rank, id LIMIT :page
);

-- name: take
UPDATE holdfast_job
SET state = 1, ready = NULL, run = run + 1, version = version + 1, token = max(token + 1, :now),
    worker = :worker, seq = :seq, lease_until = :now + coalesce(lease, :lease),
    started = NULL, reason = NULL, progress = NULL, progress_note = NULL
WHERE pk IN (SELECT value FROM json_each(:taken));

-- name: park
UPDATE holdfast_job AS j SET ready = NULL, gate = e.gate
FROM (SELECT json_extract(f.value, '$[0]') AS pk, json_extract(f.value, '$[1]') AS gate
      FROM json_each(:rows) AS f LIMIT -1) AS e
WHERE j.pk = e.pk;

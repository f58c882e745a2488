-- name: complete
-- Plain successes: the guarded copy is what makes them accepted; `forget_completed` removes just what it copied.
-- A move is 80 bytes: id 36, elapsed 20, offset 12 and length 12 of its result. Cheaper to take apart than JSON.
INSERT INTO holdfast_done (
    body, ns, id, task, queue, priority, due, state, run, failures, lost, suspect, version, token, ran_by, started, finished,
    cancel_asked, created, lease, timeout, key, tags, progress, progress_note, result{flow_columns}
)
SELECT j.pk, j.ns, j.id, j.task, j.queue, j.priority, j.due, 3, j.run, 0, 0, 0, j.version + 1, j.token, j.worker,
       coalesce(j.started, :now - CAST(substr(p.moves, m.key * 80 + 37, 20) AS INTEGER)), :now,
       j.cancel_asked, j.created, j.lease, j.timeout, j.key, j.tags, j.progress, j.progress_note,
       substr(p.long, CAST(substr(p.moves, m.key * 80 + 57, 12) AS INTEGER),
                     nullif(CAST(substr(p.moves, m.key * 80 + 69, 12) AS INTEGER), -1)){flow_values}
FROM (SELECT :moves AS moves, :long AS long) AS p CROSS JOIN json_each(:tokens) AS m
     CROSS JOIN holdfast_job AS j INDEXED BY holdfast_job_id
WHERE j.ns = :ns AND j.id = CAST(substr(p.moves, m.key * 80 + 1, 36) AS TEXT) AND j.token = m.value
  AND j.worker = :worker{unless_flow};

-- name: completed
SELECT json_group_array(id) FROM holdfast_done WHERE pk > :last - :count AND pk <= :last;

-- name: completed_flow
SELECT json_group_array(json_array(id, queue, task, 3, limit_key, sequence, halts))
FROM holdfast_done WHERE pk > :last - :count AND pk <= :last;

-- name: tally_completed
INSERT INTO holdfast_tally (ns, queue, state, jobs)
SELECT :ns, queue, 3, count(*) FROM holdfast_done WHERE pk > :last - :count AND pk <= :last GROUP BY queue
ON CONFLICT (ns, queue, state) DO UPDATE SET jobs = jobs + excluded.jobs;

-- name: forget_completed
DELETE FROM holdfast_job WHERE pk IN (SELECT body FROM holdfast_done WHERE pk > :last - :count AND pk <= :last);

-- name: promote
-- In batches, so that a million jobs that are due at once do not hold up everybody.
UPDATE holdfast_job SET ready = 1
WHERE pk IN (
    SELECT j.pk FROM json_each(:queues) AS q CROSS JOIN holdfast_job AS j INDEXED BY holdfast_job_later
    WHERE j.ns = :ns AND j.queue = q.value AND j.ready = 0 AND j.due <= :now
    LIMIT 2000
);

-- name: claim
UPDATE holdfast_job
SET state = 1, ready = NULL, run = run + 1, version = version + 1, token = max(token + 1, :now),
    worker = :worker, seq = :seq, lease_until = :now + coalesce(lease, :lease),
    started = NULL, reason = NULL, progress = NULL, progress_note = NULL
WHERE EXISTS (SELECT 1 FROM holdfast_worker WHERE ns = :ns AND id = :worker AND live_until > :now)
  AND pk IN ({chosen}){unless_flow};

-- name: unless_flow
-- Where flows are in use, the statements without them do nothing; how things stand is told with the answer.
AND NOT EXISTS (SELECT 1 FROM holdfast_flow WHERE ns = :ns)

-- name: chosen
SELECT pk, {turn} AS turn, priority, rank, id FROM holdfast_job INDEXED BY holdfast_job_ready
WHERE ns = :ns AND queue = {queue} AND ready = 1 AND task IN (SELECT value FROM json_each(:tasks))
  AND NOT EXISTS (SELECT 1 FROM holdfast_queue WHERE ns = :ns AND name = {queue} AND paused = 1)
ORDER BY priority, rank, id LIMIT :limit

-- name: chosen_of_many
SELECT pk FROM ({turns}) ORDER BY turn, priority, rank, id LIMIT :limit

-- name: claimed
SELECT json_group_array(json_array(
           j.id, j.task, j.queue, j.priority, j.due, j.created, j.run, j.failures, j.lost, j.suspect, j.version,
           j.token, j.lease_until, j.cancel_asked, length(CAST(b.payload AS BLOB)),
           CASE WHEN coalesce(j.lease, j.timeout, j.key, j.tags, j.error, j.result, b.retry, b.headers{flow}) IS NULL
                THEN NULL
                ELSE json_array(j.lease, j.timeout, j.key, j.tags, j.error, length(CAST(j.result AS BLOB)),
                                length(CAST(b.retry AS BLOB)), length(CAST(b.headers AS BLOB)){flow}) END)),
       group_concat(CASE WHEN coalesce(j.result, b.retry, b.headers) IS NULL THEN b.payload
                    ELSE ifnull(j.result, '') || ifnull(b.retry, '') || ifnull(b.headers, '') || b.payload END, ''),
       {situation}
FROM holdfast_job AS j INDEXED BY holdfast_job_leased LEFT JOIN holdfast_body AS b ON b.pk = j.pk
WHERE j.ns = :ns AND j.worker = :worker AND j.seq = :seq;

-- name: answer
SELECT {records}, {situation}
FROM holdfast_job AS j INDEXED BY holdfast_job_leased LEFT JOIN holdfast_body AS b ON b.pk = j.pk
WHERE j.ns = :ns AND j.worker = :worker AND j.seq = :seq;

-- name: situation
-- Paused queues, own jobs that were asked to stop, whether the worker is live, the next due time, when a gate opens,
-- paused tasks, whether flows are in use.
json_array(
    json((SELECT json_group_array(name) FROM holdfast_queue WHERE ns = :ns AND paused = 1)),
    json((SELECT json_group_array(json_array(id, token))
     FROM (SELECT id, token FROM holdfast_job INDEXED BY holdfast_job_asked
           WHERE ns = :ns AND worker = :worker AND cancel_asked = 1 ORDER BY id))),
    EXISTS (SELECT 1 FROM holdfast_worker WHERE ns = :ns AND id = :worker AND live_until > :now),
    (SELECT min((SELECT min(due) FROM holdfast_job INDEXED BY holdfast_job_later
                 WHERE ns = :ns AND queue = q.value AND ready = 0))
     FROM json_each(:queues) AS q
     WHERE q.value NOT IN (SELECT name FROM holdfast_queue WHERE ns = :ns AND paused = 1)),
    (SELECT min(opens) FROM holdfast_line INDEXED BY holdfast_line_opens WHERE ns = :ns AND opens IS NOT NULL),
    json((SELECT json_group_array(name) FROM holdfast_limit WHERE ns = :ns AND scope = 'task' AND paused = 1)),
    EXISTS (SELECT 1 FROM holdfast_flow WHERE ns = :ns)
)

-- name: peek
SELECT {situation},
    EXISTS (SELECT 1 FROM json_each(:queues) AS q CROSS JOIN holdfast_job AS j INDEXED BY holdfast_job_ready
            WHERE j.ns = :ns AND j.queue = q.value AND j.ready = 1
              AND j.task IN (SELECT value FROM json_each(:tasks))
              AND q.value NOT IN (SELECT name FROM holdfast_queue WHERE ns = :ns AND paused = 1));

-- name: held_by_tick
SELECT json_group_array(id) FROM holdfast_job INDEXED BY holdfast_job_leased WHERE ns = :ns AND worker = :worker AND seq = :seq;

-- name: situation_alone
SELECT {situation};

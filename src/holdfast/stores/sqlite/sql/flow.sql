-- name: flow_mark
SELECT mark, turn FROM holdfast_flow WHERE ns = :ns;

-- name: flow_begin
INSERT INTO holdfast_flow (ns, mark, turn) VALUES (:ns, 0, 0) ON CONFLICT (ns) DO NOTHING;

-- name: flow_changed
INSERT INTO holdfast_flow (ns, mark, turn) VALUES (:ns, :mark, 0)
ON CONFLICT (ns) DO UPDATE SET mark = excluded.mark;

-- name: flow_turns
INSERT INTO holdfast_flow (ns, mark, turn) VALUES (:ns, 0, :count)
ON CONFLICT (ns) DO UPDATE SET turn = turn + excluded.turn RETURNING turn;

-- name: limits
SELECT scope, name, concurrency, rate, period, burst, paused, weight, declared, since
FROM holdfast_limit WHERE ns = :ns ORDER BY scope, name;

-- name: limit_put
INSERT INTO holdfast_limit (ns, scope, name, concurrency, rate, period, burst, paused, weight, declared, since)
VALUES (:ns, :scope, :name, :concurrency, :rate, :period, :burst, :paused, :weight, :declared, iif(:paused, :now, NULL))
ON CONFLICT (ns, scope, name) DO UPDATE
SET concurrency = excluded.concurrency, rate = excluded.rate, period = excluded.period, burst = excluded.burst,
    paused = excluded.paused, weight = excluded.weight, declared = excluded.declared,
    since = iif(excluded.paused, coalesce(since, excluded.since), NULL)
WHERE declared OR NOT excluded.declared;

-- name: limit_remove
DELETE FROM holdfast_limit WHERE ns = :ns AND scope = :scope AND name = :name;

-- name: usage
SELECT json_group_array(json_array(
    CASE json_extract(g.value, '$[0]')
    WHEN 'queue' THEN (SELECT count(*) FROM holdfast_job INDEXED BY holdfast_job_leased
                       WHERE ns = :ns AND worker IS NOT NULL AND queue = json_extract(g.value, '$[1]'))
    WHEN 'task' THEN (SELECT count(*) FROM holdfast_job INDEXED BY holdfast_job_leased
                      WHERE ns = :ns AND worker IS NOT NULL AND task = json_extract(g.value, '$[1]'))
    WHEN 'key' THEN (SELECT count(*) FROM holdfast_job INDEXED BY holdfast_job_limit_key
                     WHERE ns = :ns AND worker IS NOT NULL AND limit_key = json_extract(g.value, '$[1]'))
    WHEN 'sequence' THEN (SELECT count(*) FROM holdfast_job INDEXED BY holdfast_job_sequence
                          WHERE ns = :ns AND worker IS NOT NULL AND sequence = json_extract(g.value, '$[1]'))
    ELSE 0 END,
    (SELECT count(*) FROM holdfast_job INDEXED BY holdfast_job_parked
     WHERE ns = :ns AND gate = json_extract(g.value, '$[2]'))
)) FROM json_each(:gates) AS g;

-- name: overdue
SELECT json_group_array(id) FROM (
    SELECT id FROM holdfast_job INDEXED BY holdfast_job_expires
    WHERE ns = :ns AND expires <= :now AND run = 0 ORDER BY expires, id LIMIT :limit
);

-- name: halts
SELECT json_group_array(json_array(sequence, job)) FROM (
    SELECT sequence, job FROM holdfast_halt WHERE ns = :ns ORDER BY sequence
);

-- name: halt
INSERT INTO holdfast_halt (ns, sequence, job)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]') FROM json_each(:rows) AS f WHERE true
ON CONFLICT (ns, sequence) DO UPDATE SET job = excluded.job;

-- name: halts_end
DELETE FROM holdfast_halt WHERE ns = :ns AND (sequence, job) IN (
    SELECT json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]') FROM json_each(:rows) AS f
);

-- name: proceed
DELETE FROM holdfast_halt WHERE ns = :ns AND sequence = :sequence;

-- name: fair_floors
-- For each queue and priority the lowest rank of what is ready, else NULL; and the highest rank of the queue.
SELECT json_group_array(json_array(
    (SELECT min(rank) FROM (
        SELECT min(rank) AS rank FROM holdfast_job INDEXED BY holdfast_job_ready
        WHERE ns = :ns AND queue = json_extract(f.value, '$[0]') AND ready = 1
          AND priority = json_extract(f.value, '$[1]')
        UNION ALL
        SELECT min(rank) FROM holdfast_job INDEXED BY holdfast_job_later
        WHERE ns = :ns AND queue = json_extract(f.value, '$[0]') AND ready = 0 AND due <= :now
          AND priority = json_extract(f.value, '$[1]'))),
    (SELECT max(last) FROM holdfast_fair INDEXED BY holdfast_fair_last
     WHERE ns = :ns AND queue = json_extract(f.value, '$[0]'))
)) FROM json_each(:places) AS f;

-- name: fair_last
SELECT json_group_array((
    SELECT last FROM holdfast_fair
    WHERE ns = :ns AND queue = json_extract(f.value, '$[0]') AND key = json_extract(f.value, '$[1]')
)) FROM json_each(:keys) AS f;

-- name: fair_keep
INSERT INTO holdfast_fair (ns, queue, key, last)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]')
FROM json_each(:rows) AS f WHERE true
ON CONFLICT (ns, queue, key) DO UPDATE SET last = excluded.last;

-- name: fair_queues
-- The queues that have more keys than so many.
SELECT json_group_array(queue) FROM (
    SELECT queue FROM holdfast_fair INDEXED BY holdfast_fair_last WHERE ns = :ns GROUP BY queue HAVING count(*) > :many
);

-- name: fair_forget
-- Keys of a queue whose last rank is below that of all that is ready, by priority, but for the highest.
WITH RECURSIVE first (priority) AS (
    SELECT min(priority) FROM holdfast_job INDEXED BY holdfast_job_ready
    WHERE ns = :ns AND queue = :queue AND ready = 1
    UNION ALL
    SELECT (SELECT min(priority) FROM holdfast_job INDEXED BY holdfast_job_ready
            WHERE ns = :ns AND queue = :queue AND ready = 1 AND priority > first.priority)
    FROM first WHERE priority IS NOT NULL
)
DELETE FROM holdfast_fair WHERE ns = :ns AND queue = :queue AND key IN (
    SELECT key FROM holdfast_fair INDEXED BY holdfast_fair_last
    WHERE ns = :ns AND queue = :queue AND last < (SELECT max(last) FROM holdfast_fair INDEXED BY holdfast_fair_last
                                                  WHERE ns = :ns AND queue = :queue)
      AND last <= :now AND last <= coalesce((
          SELECT min((SELECT min(rank) FROM holdfast_job INDEXED BY holdfast_job_ready
                      WHERE ns = :ns AND queue = :queue AND ready = 1 AND priority = first.priority)) FROM first), :now)
    ORDER BY last LIMIT :limit
);

-- name: rates_forget
DELETE FROM holdfast_rate WHERE ns = :ns AND last <= :now;

-- name: link_states
-- How each job stands, NULL if it is not stored.
SELECT json_group_array(coalesce(
    (SELECT state FROM holdfast_job INDEXED BY holdfast_job_id WHERE ns = :ns AND id = f.value),
    (SELECT state FROM holdfast_done INDEXED BY holdfast_done_id WHERE ns = :ns AND id = f.value)
)) FROM json_each(:ids) AS f;

-- name: links_waiting
-- Those of the jobs that wait for others.
SELECT json_group_array(f.value) FROM json_each(:ids) AS f
WHERE EXISTS (SELECT 1 FROM holdfast_job INDEXED BY holdfast_job_id
              WHERE ns = :ns AND id = f.value AND gate = 'after');

-- name: links_add
INSERT INTO holdfast_link (ns, waiter, job, state)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]')
FROM json_each(:rows) AS f WHERE true
ON CONFLICT (ns, waiter, job) DO NOTHING;

-- name: links_told
-- The pending links to these jobs that end by the states which they have now.
SELECT json_group_array(json_array(l.waiter, l.job, json_extract(f.value, '$[1]')))
FROM json_each(:rows) AS f CROSS JOIN holdfast_link AS l INDEXED BY holdfast_link_job
WHERE l.ns = :ns AND l.job = json_extract(f.value, '$[0]') AND l.state IS NULL
  AND (json_extract(f.value, '$[1]') <> 6 OR coalesce(
      (SELECT after_any FROM holdfast_job INDEXED BY holdfast_job_id WHERE ns = :ns AND id = l.waiter),
      (SELECT after_any FROM holdfast_done INDEXED BY holdfast_done_id WHERE ns = :ns AND id = l.waiter)));

-- name: links_end
UPDATE holdfast_link AS l SET state = e.state
FROM (SELECT json_extract(f.value, '$[0]') AS waiter, json_extract(f.value, '$[1]') AS job,
             json_extract(f.value, '$[2]') AS state
      FROM json_each(:rows) AS f LIMIT -1) AS e
WHERE l.ns = :ns AND l.waiter = e.waiter AND l.job = e.job;

-- name: links_unmet
UPDATE holdfast_job AS j SET unmet = coalesce(j.unmet, 0) + e.unmet
FROM (SELECT h.pk, json_extract(f.value, '$[1]') AS unmet
      FROM json_each(:rows) AS f CROSS JOIN holdfast_job AS h INDEXED BY holdfast_job_id
      WHERE h.ns = :ns AND h.id = json_extract(f.value, '$[0]') LIMIT -1) AS e
WHERE j.pk = e.pk;

-- name: links_unmet_done
UPDATE holdfast_done AS j SET unmet = coalesce(j.unmet, 0) + e.unmet
FROM (SELECT h.pk, json_extract(f.value, '$[1]') AS unmet
      FROM json_each(:rows) AS f CROSS JOIN holdfast_done AS h INDEXED BY holdfast_done_id
      WHERE h.ns = :ns AND h.id = json_extract(f.value, '$[0]') LIMIT -1) AS e
WHERE j.pk = e.pk;

-- name: links_let_go
UPDATE holdfast_job INDEXED BY holdfast_job_id SET gate = NULL, ready = due <= :now
WHERE ns = :ns AND id IN (SELECT value FROM json_each(:ids)) AND gate = 'after'
  AND NOT EXISTS (SELECT 1 FROM holdfast_link AS l INDEXED BY holdfast_link_pending
                  WHERE l.ns = :ns AND l.waiter = holdfast_job.id AND l.state IS NULL);

-- name: links_release
DELETE FROM holdfast_link WHERE ns = :ns AND waiter = :job AND job = '';

-- name: links_forget
DELETE FROM holdfast_link WHERE ns = :ns AND waiter IN (SELECT value FROM json_each(:ids));

-- name: links_awaited
SELECT count(*) FILTER (WHERE job <> ''), count(*) FILTER (WHERE job <> '' AND state IS NULL),
       count(*) FILTER (WHERE state <> 3), count(*) FILTER (WHERE job = '')
FROM holdfast_link WHERE ns = :ns AND waiter = :job;

-- name: links_before
SELECT json_group_array(json_array(job, state)) FROM (
    SELECT job, state FROM holdfast_link
    WHERE ns = :ns AND waiter = :job AND job > :after ORDER BY job LIMIT :limit
);

-- name: register
INSERT INTO holdfast_worker (ns, id, host, pid, queues, tasks, concurrency, version, started, seen, live_until)
VALUES (:ns, :id, :host, :pid, :queues, :tasks, :concurrency, :version, :now, :now, :now + :lease)
ON CONFLICT (ns, id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, queues = excluded.queues, tasks = excluded.tasks,
    concurrency = excluded.concurrency, version = excluded.version, seen = excluded.seen,
    live_until = excluded.live_until;

-- name: beat
UPDATE holdfast_worker SET seen = :now, live_until = :now + :lease,
    report = coalesce(:report, report), reported = CASE WHEN :report IS NULL THEN reported ELSE :now END
WHERE ns = :ns AND id = :id;

-- name: retire
DELETE FROM holdfast_worker WHERE ns = :ns AND id = :id;

-- name: workers
SELECT json_group_array(json_array(
    id, host, pid, queues, tasks, concurrency, version, started, seen, live_until,
    CASE WHEN report IS NOT NULL THEN hex(report) END, reported))
FROM (SELECT * FROM holdfast_worker WHERE ns = :ns ORDER BY id);

-- name: forget_workers
DELETE FROM holdfast_worker WHERE ns = :ns AND live_until <= :before;

-- name: pause
INSERT INTO holdfast_queue (ns, name, paused, since) VALUES (:ns, :queue, 1, :now)
ON CONFLICT (ns, name) DO UPDATE SET paused = 1, since = coalesce(since, excluded.since);

-- name: resume
UPDATE holdfast_queue SET paused = 0, since = NULL WHERE ns = :ns AND name = :queue;

-- name: queues
-- Walks from name to name along the indexes, so that many jobs in few queues cost little. Of those that are ready also
-- from priority to priority, of which each has a first; of more than a hundred in a queue the rest is left out.
WITH RECURSIVE
    first (pk, name, priority, n) AS (
        SELECT * FROM (
            SELECT pk, queue, priority, 1 FROM holdfast_job
            WHERE ns = :ns AND ready = 1 ORDER BY queue, priority, rank, id LIMIT 1)
        UNION ALL
        SELECT j.pk, j.queue, j.priority, CASE WHEN j.queue = f.name THEN f.n + 1 ELSE 1 END
        FROM first AS f CROSS JOIN holdfast_job AS j
        WHERE j.pk = coalesce(
            (SELECT pk FROM holdfast_job
             WHERE ns = :ns AND ready = 1 AND queue = f.name AND priority > f.priority AND f.n < 100
             ORDER BY priority, rank, id LIMIT 1),
            (SELECT pk FROM holdfast_job WHERE ns = :ns AND ready = 1 AND queue > f.name
             ORDER BY queue, priority, rank, id LIMIT 1))
    ),
    later (name) AS (
        SELECT min(queue) FROM holdfast_job WHERE ns = :ns AND ready = 0
        UNION ALL
        SELECT (SELECT min(queue) FROM holdfast_job WHERE ns = :ns AND ready = 0 AND queue > name)
        FROM later WHERE name IS NOT NULL
    ),
    waiting (name) AS (
        SELECT min(queue) FROM holdfast_job WHERE ns = :ns AND gate = 'after'
        UNION ALL
        SELECT (SELECT min(queue) FROM holdfast_job WHERE ns = :ns AND gate = 'after' AND queue > name)
        FROM waiting WHERE name IS NOT NULL
    ),
    known (name) AS (
        SELECT name FROM first UNION SELECT name FROM later UNION SELECT name FROM waiting
        UNION SELECT l.queue FROM holdfast_line AS l WHERE l.ns = :ns AND EXISTS (
            SELECT 1 FROM holdfast_job AS j
            WHERE j.ns = :ns AND j.gate = l.gate AND j.queue = l.queue AND j.task = l.task)
        UNION SELECT queue FROM holdfast_job WHERE ns = :ns AND worker IS NOT NULL
        UNION SELECT name FROM holdfast_queue WHERE ns = :ns
    )
SELECT json_group_array(json_array(name, paused, since, :now - oldest)) FROM (
    SELECT known.name, coalesce(q.paused, 0) AS paused, q.since, (
        SELECT min(since) FROM (
            SELECT min(max(j.due, j.created)) AS since FROM first AS f CROSS JOIN holdfast_job AS j
            WHERE f.name = known.name AND j.pk = f.pk
            UNION ALL
            SELECT * FROM (
                SELECT max(due, created) FROM holdfast_job
                WHERE ns = :ns AND ready = 0 AND queue = known.name AND due <= :now ORDER BY due LIMIT 1)
        )
    ) AS oldest
    FROM known LEFT JOIN holdfast_queue AS q ON q.ns = :ns AND q.name = known.name
    WHERE known.name IS NOT NULL ORDER BY known.name
);

-- name: write_lock
-- Changes nothing, but makes a transaction of somebody else's a writing one.
DELETE FROM holdfast_namespace WHERE false;

-- name: namespace
SELECT id FROM holdfast_namespace WHERE name = :name;

-- name: namespace_add
INSERT INTO holdfast_namespace (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

-- name: register
INSERT INTO holdfast_worker (ns, id, host, pid, queues, tasks, concurrency, version, started, seen, live_until)
VALUES (:ns, :id, :host, :pid, :queues, :tasks, :concurrency, :version, :now, :now, :now + :lease)
ON CONFLICT (ns, id) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, queues = excluded.queues, tasks = excluded.tasks,
    concurrency = excluded.concurrency, version = excluded.version, seen = excluded.seen,
    live_until = excluded.live_until;

-- name: beat
UPDATE holdfast_worker SET seen = :now, live_until = :now + :lease WHERE ns = :ns AND id = :id;

-- name: retire
DELETE FROM holdfast_worker WHERE ns = :ns AND id = :id;

-- name: workers
SELECT json_group_array(json_array(id, host, pid, queues, tasks, concurrency, version, started, seen, live_until))
FROM (SELECT * FROM holdfast_worker WHERE ns = :ns ORDER BY id);

-- name: forget_workers
DELETE FROM holdfast_worker WHERE ns = :ns AND live_until <= :before;

-- name: pause
INSERT INTO holdfast_queue (ns, name, paused) VALUES (:ns, :queue, 1)
ON CONFLICT (ns, name) DO UPDATE SET paused = 1;

-- name: resume
UPDATE holdfast_queue SET paused = 0 WHERE ns = :ns AND name = :queue;

-- name: queues
-- Walks from name to name along the indexes, so that many jobs in few queues cost little.
WITH RECURSIVE
    ready (name) AS (
        SELECT min(queue) FROM holdfast_job WHERE ns = :ns AND ready = 1
        UNION ALL
        SELECT (SELECT min(queue) FROM holdfast_job WHERE ns = :ns AND ready = 1 AND queue > name)
        FROM ready WHERE name IS NOT NULL
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
        SELECT name FROM ready UNION SELECT name FROM later UNION SELECT name FROM waiting
        UNION SELECT l.queue FROM holdfast_line AS l WHERE l.ns = :ns AND EXISTS (
            SELECT 1 FROM holdfast_job AS j
            WHERE j.ns = :ns AND j.gate = l.gate AND j.queue = l.queue AND j.task = l.task)
        UNION SELECT queue FROM holdfast_job WHERE ns = :ns AND worker IS NOT NULL
        UNION SELECT name FROM holdfast_queue WHERE ns = :ns
    )
SELECT json_group_array(json_array(name, paused)) FROM (
    SELECT k.name, coalesce(q.paused, 0) AS paused
    FROM known AS k LEFT JOIN holdfast_queue AS q ON q.ns = :ns AND q.name = k.name
    WHERE k.name IS NOT NULL ORDER BY k.name
);

-- name: write_lock
-- Changes nothing, but makes a transaction of somebody else's a writing one.
DELETE FROM holdfast_namespace WHERE false;

-- name: namespace
SELECT id FROM holdfast_namespace WHERE name = :name;

-- name: namespace_add
INSERT INTO holdfast_namespace (name) VALUES (:name) ON CONFLICT (name) DO NOTHING;

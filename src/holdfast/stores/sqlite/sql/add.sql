-- name: add_taken
-- How many ids and keys of the batch are taken.
SELECT (SELECT count(*) FROM json_each(:ids) AS i
        WHERE EXISTS (SELECT 1 FROM holdfast_job WHERE ns = :ns AND id = i.value)
           OR EXISTS (SELECT 1 FROM holdfast_done WHERE ns = :ns AND id = i.value))
     + (SELECT count(*) FROM json_each(:keys) AS k CROSS JOIN holdfast_key AS h
        WHERE h.ns = :ns AND h.key = k.value);

-- name: add_bodies
INSERT INTO holdfast_body (payload)
SELECT substr(:long, json_extract(f.value, '$[5]'), json_extract(f.value, '$[6]')) FROM json_each(:rows) AS f;

-- name: add_jobs
-- Each under the number that its body got; those whose id is taken are left out.
INSERT INTO holdfast_job (pk, ns, id, task, queue, priority, due, rank, ready, created)
SELECT :first + f.key, :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'),
       json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'),
       json_extract(f.value, '$[4]'), json_extract(f.value, '$[4]') <= :now, :now
FROM json_each(:rows) AS f
WHERE NOT EXISTS (SELECT 1 FROM holdfast_done WHERE ns = :ns AND id = json_extract(f.value, '$[0]'))
ON CONFLICT (ns, id) DO NOTHING;

-- name: add_full_bodies
INSERT INTO holdfast_body (payload, headers, retry)
SELECT substr(p.long, json_extract(f.value, '$[5]'), json_extract(f.value, '$[6]')),
       substr(p.long, json_extract(f.value, '$[7]'), json_extract(f.value, '$[8]')),
       substr(p.long, json_extract(f.value, '$[9]'), json_extract(f.value, '$[10]'))
FROM (SELECT :long AS long) AS p CROSS JOIN json_each(:rows) AS f;

-- name: add_full_jobs
INSERT INTO holdfast_job (pk, ns, id, task, queue, priority, due, ready, created, key, tags, lease, timeout, rank)
SELECT :first + f.key, :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'),
       json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'),
       json_extract(f.value, '$[4]') <= :now, :now,
       json_extract(f.value, '$[11]'), json_extract(f.value, '$[12]'), json_extract(f.value, '$[13]'),
       json_extract(f.value, '$[14]'), json_extract(f.value, '$[4]')
FROM json_each(:rows) AS f;

-- name: add_flow_jobs
INSERT INTO holdfast_job (
    pk, ns, id, task, queue, priority, due, ready, created, key, tags, lease, timeout, rank,
    limit_key, fair_key, sequence, turn, halts, after_any, expires, unmet, gate
)
SELECT :first + f.key, :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'),
       json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'),
       CASE WHEN json_extract(f.value, '$[23]') IS NULL THEN json_extract(f.value, '$[4]') <= :now END, :now,
       json_extract(f.value, '$[11]'), json_extract(f.value, '$[12]'), json_extract(f.value, '$[13]'),
       json_extract(f.value, '$[14]'), json_extract(f.value, '$[15]'), json_extract(f.value, '$[16]'),
       json_extract(f.value, '$[17]'), json_extract(f.value, '$[18]'), json_extract(f.value, '$[19]'),
       json_extract(f.value, '$[20]'), json_extract(f.value, '$[21]'), json_extract(f.value, '$[22]'),
       json_extract(f.value, '$[24]'), json_extract(f.value, '$[23]')
FROM json_each(:rows) AS f;

-- name: added
SELECT json_group_array(id) FROM holdfast_job NOT INDEXED WHERE pk BETWEEN :first AND :last;

-- name: forget_unused_bodies
DELETE FROM holdfast_body
WHERE pk BETWEEN :first AND :last
  AND pk NOT IN (SELECT pk FROM holdfast_job WHERE pk BETWEEN :first AND :last);

-- name: key_holder
SELECT job, until FROM holdfast_key WHERE ns = :ns AND key = :key;

-- name: key_take
INSERT INTO holdfast_key (ns, key, job, until) VALUES (:ns, :key, :job, :until)
ON CONFLICT (ns, key) DO UPDATE SET job = excluded.job, until = excluded.until;

-- name: key_take_many
INSERT INTO holdfast_key (ns, key, job, until)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]')
FROM json_each(:rows) AS f;

-- name: key_release
DELETE FROM holdfast_key WHERE ns = :ns AND key = :key AND job = :job;

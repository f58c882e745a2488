-- name: add_taken
-- How many ids and keys of the batch are taken.
SELECT (SELECT count(*) FROM json_each(:ids) AS i
        WHERE EXISTS (SELECT 1 FROM holdfast_job WHERE ns = :ns AND id = i.value)
           OR EXISTS (SELECT 1 FROM holdfast_done WHERE ns = :ns AND id = i.value))
     + (SELECT count(*) FROM json_each(:keys) AS k CROSS JOIN holdfast_key AS h
        WHERE h.ns = :ns AND h.key = k.value);

-- name: add_plain
INSERT INTO holdfast_job (ns, id, task, queue, priority, due, ready, created, payload)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]'),
       json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'), json_extract(f.value, '$[4]') <= :now, :now,
       substr(:long, json_extract(f.value, '$[5]'), json_extract(f.value, '$[6]'))
FROM json_each(:rows) AS f
WHERE NOT EXISTS (SELECT 1 FROM holdfast_done WHERE ns = :ns AND id = json_extract(f.value, '$[0]'))
ON CONFLICT (ns, id) DO NOTHING;

-- name: add_created
SELECT json_group_array(id) FROM holdfast_job NOT INDEXED WHERE pk > :last - :count AND pk <= :last AND ns = :ns;

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

-- name: schedule_marks
SELECT json_group_array(json_array(s.name, s.version, s.mark))
FROM json_each(:names) AS n CROSS JOIN holdfast_schedule AS s INDEXED BY holdfast_schedule_name
WHERE s.ns = :ns AND s.name = n.value;

-- name: schedules_put
INSERT INTO holdfast_schedule (ns, name, version, mark, look_at, job, waits, definition, state)
SELECT :ns, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'), json_extract(f.value, '$[2]'),
       json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'), json_extract(f.value, '$[5]'),
       substr(p.long, json_extract(f.value, '$[6]'), json_extract(f.value, '$[7]')),
       substr(p.long, json_extract(f.value, '$[8]'), json_extract(f.value, '$[9]'))
FROM (SELECT :long AS long) AS p CROSS JOIN json_each(:rows) AS f WHERE true
ON CONFLICT (ns, name) DO UPDATE
SET version = excluded.version, mark = excluded.mark, look_at = excluded.look_at, job = excluded.job,
    waits = excluded.waits, definition = excluded.definition, state = excluded.state;

-- name: schedule_remove
DELETE FROM holdfast_schedule WHERE ns = :ns AND name = :name;

-- name: schedules
-- Bytes in hexadecimal, since JSON has none. A live job stands in one table, a finished one in the other.
SELECT json_group_array(json_array(
    s.name, s.version, s.mark, hex(s.definition), hex(s.state), s.look_at, s.job, s.waits,
    j.pk IS NOT NULL, coalesce(j.started, d.started), d.finished))
FROM json_each(:names) AS n CROSS JOIN holdfast_schedule AS s INDEXED BY holdfast_schedule_name
LEFT JOIN holdfast_job AS j INDEXED BY holdfast_job_id ON j.ns = :ns AND j.id = s.job
LEFT JOIN holdfast_done AS d INDEXED BY holdfast_done_id ON d.ns = :ns AND d.id = s.job
WHERE s.ns = :ns AND s.name = n.value;

-- name: schedules_after
SELECT json_group_array(name) FROM (
    SELECT name FROM holdfast_schedule INDEXED BY holdfast_schedule_name
    WHERE ns = :ns AND name > :after ORDER BY name LIMIT :limit
);

-- name: schedules_due
-- Those whose time has come, one more than the limit if there are more, and the first time that has not come.
SELECT (SELECT json_group_array(name) FROM (
            SELECT name FROM holdfast_schedule INDEXED BY holdfast_schedule_look
            WHERE ns = :ns AND look_at <= :now ORDER BY look_at, name LIMIT :limit + 1)),
       (SELECT min(look_at) FROM holdfast_schedule INDEXED BY holdfast_schedule_look
        WHERE ns = :ns AND look_at > :now);

-- name: schedules_ended
-- Those that wait for a job that is not live, and whose time has not come.
SELECT json_group_array(name) FROM (
    SELECT s.name FROM holdfast_schedule AS s INDEXED BY holdfast_schedule_waits
    WHERE s.ns = :ns AND s.waits = 1 AND coalesce(s.look_at > :now, 1)
      AND NOT EXISTS (SELECT 1 FROM holdfast_job INDEXED BY holdfast_job_id WHERE ns = :ns AND id = s.job)
    ORDER BY s.name LIMIT :limit
);

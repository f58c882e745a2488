-- name: extend
-- The limit keeps SQLite from looking for the wishes of each job instead of the job of each wish.
UPDATE holdfast_job AS j
SET lease_until = max(j.lease_until, :now + e.lease),
    state = CASE WHEN e.elapsed IS NOT NULL AND j.state = 1 THEN 2 ELSE j.state END,
    started = CASE WHEN e.elapsed IS NOT NULL AND j.state = 1 THEN :now - e.elapsed ELSE j.started END,
    progress = CASE WHEN e.told THEN e.progress ELSE j.progress END,
    progress_note = CASE WHEN e.told THEN e.note ELSE j.progress_note END
FROM (
    SELECT h.pk, json_extract(f.value, '$[2]') AS lease, json_extract(f.value, '$[3]') AS elapsed,
           json_extract(f.value, '$[4]') AS told, json_extract(f.value, '$[5]') AS progress,
           CAST(substr(:long, json_extract(f.value, '$[6]'), json_extract(f.value, '$[7]')) AS TEXT) AS note
    FROM json_each(:rows) AS f CROSS JOIN holdfast_job AS h INDEXED BY holdfast_job_id
    WHERE h.ns = :ns AND h.id = json_extract(f.value, '$[0]') AND h.token = json_extract(f.value, '$[1]')
      AND h.worker = :worker AND h.lease_until > :now
    LIMIT -1
) AS e
WHERE j.pk = e.pk;

-- name: held
-- One answer for each wish, in order: NULL lost, 0 held, 1 asked to stop.
SELECT json_group_array((
    SELECT j.cancel_asked FROM holdfast_job AS j
    WHERE j.ns = :ns AND j.id = json_extract(f.value, '$[0]') AND j.token = json_extract(f.value, '$[1]')
      AND j.worker = :worker AND j.lease_until > :now
)) FROM json_each(:rows) AS f;

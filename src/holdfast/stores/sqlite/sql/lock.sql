-- name: lock
SELECT owner, token, until FROM holdfast_lock WHERE ns = :ns AND name = :name AND until > :now;

-- name: locks
SELECT k.name, k.owner, k.token, k.until, (
    SELECT count(*) FROM holdfast_lock_line AS l WHERE l.ns = :ns AND l.name = k.name AND l.until > :now)
FROM holdfast_lock AS k
WHERE k.ns = :ns AND k.name > :after AND k.until > :now ORDER BY k.name LIMIT :limit;

-- name: lock_left
SELECT 1 FROM holdfast_lock WHERE ns = :ns AND name = :name AND owner = :owner AND token = :token;

-- name: lock_sweep
DELETE FROM holdfast_lock WHERE until <= :now;

-- name: line_sweep
DELETE FROM holdfast_lock_line WHERE until <= :now;

-- name: line_before
-- Of those before the owner, or of all if it does not stand in line: the last end.
SELECT max(until) FROM holdfast_lock_line
WHERE ns = :ns AND name = :name AND pk < coalesce(
    (SELECT pk FROM holdfast_lock_line WHERE ns = :ns AND name = :name AND owner = :owner), 9223372036854775807);

-- name: line_stand
INSERT INTO holdfast_lock_line (ns, name, owner, until) VALUES (:ns, :name, :owner, :now + :place)
ON CONFLICT (ns, name, owner) DO UPDATE SET until = excluded.until;

-- name: line_leave
DELETE FROM holdfast_lock_line WHERE ns = :ns AND name = :name AND owner = :owner;

-- name: lock_token
INSERT INTO holdfast_lock_token (ns, token) VALUES (:ns, :now)
ON CONFLICT (ns) DO UPDATE SET token = max(token + 1, excluded.token)
RETURNING token;

-- name: lock_grant
INSERT INTO holdfast_lock (ns, name, owner, token, until) VALUES (:ns, :name, :owner, :token, :now + :ttl);

-- name: lock_renew
UPDATE holdfast_lock SET until = max(until, :now + :ttl)
WHERE ns = :ns AND name = :name AND owner = :owner AND token = :token AND until > :now;

-- name: lock_release
DELETE FROM holdfast_lock WHERE ns = :ns AND name = :name AND owner = :owner AND token = coalesce(:token, token);

-- name: lock_turns
-- The first in line of each free lock of the namespace.
SELECT owner FROM holdfast_lock_line AS l
WHERE pk IN (SELECT min(pk) FROM holdfast_lock_line WHERE ns = :ns AND until > :now GROUP BY name)
  AND NOT EXISTS (SELECT 1 FROM holdfast_lock AS k WHERE k.ns = :ns AND k.name = l.name AND k.until > :now);

-- name: lock_turn
SELECT owner FROM holdfast_lock_line AS l
WHERE ns = :ns AND name = :name AND until > :now
  AND NOT EXISTS (SELECT 1 FROM holdfast_lock AS k WHERE k.ns = :ns AND k.name = :name AND k.until > :now)
ORDER BY pk LIMIT 1;

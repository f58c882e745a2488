-- min-client: 1
-- Named locks: who holds each, under which token, until when. A row that has ended says nothing, and is swept away.
CREATE TABLE holdfast.lock (
    until bigint NOT NULL,
    token bigint NOT NULL,
    ns integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX holdfast_lock_until ON holdfast.lock (until);

-- Who stands in line for a lock, in the order of arrival, until when, and the mark of where it waits.
CREATE TABLE holdfast.lock_line (
    arrival bigint GENERATED ALWAYS AS IDENTITY,
    until bigint NOT NULL,
    ns integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    mark text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, name, owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX holdfast_lock_line_until ON holdfast.lock_line (until);

-- The last token of any lock of the namespace.
CREATE TABLE holdfast.lock_token (
    token bigint NOT NULL,
    ns integer PRIMARY KEY,
    CONSTRAINT holdfast_lock_token_sound CHECK (token BETWEEN 0 AND 9000000000000000000)
) WITH (fillfactor = 10);

-- Calls about one lock come one after the other, each seeing all that those before it did.
CREATE FUNCTION holdfast.lock_enter_v1(p_ns integer, p_name text) RETURNS void LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock(hashtextextended('holdfast.lock ' || p_ns || ' ' || p_name, 0)) $$;

-- Gives the token, or the time until it could be granted if nobody did anything.
CREATE FUNCTION holdfast.lock_acquire_v1(
    p_ns integer, p_name text, p_owner text, p_ttl bigint, p_place bigint, p_mark text, OUT token bigint, OUT after bigint
) LANGUAGE plpgsql
AS $$
DECLARE
    v_now bigint;
    v_held holdfast.lock;
    v_arrival bigint;
    v_before bigint;
BEGIN
    PERFORM holdfast.lock_enter_v1(p_ns, p_name);
    -- Waits for a renewal under way, which may have begun before the end of the lease.
    SELECT * INTO v_held FROM holdfast.lock AS k WHERE k.ns = p_ns AND k.name = p_name FOR UPDATE;
    v_now := holdfast.now_v1();
    IF v_held.until <= v_now THEN
        v_held := NULL;
    END IF;
    after := 0;
    IF v_held.owner = p_owner THEN
        UPDATE holdfast.lock AS k SET until = greatest(k.until, v_now + p_ttl) WHERE k.ns = p_ns AND k.name = p_name;
        token := v_held.token;
        RETURN;
    END IF;
    DELETE FROM holdfast.lock_line AS l WHERE l.ns = p_ns AND l.name = p_name AND l.until <= v_now;
    SELECT l.arrival INTO v_arrival FROM holdfast.lock_line AS l
    WHERE l.ns = p_ns AND l.name = p_name AND l.owner = p_owner;
    SELECT max(l.until) INTO v_before FROM holdfast.lock_line AS l
    WHERE l.ns = p_ns AND l.name = p_name AND (v_arrival IS NULL OR l.arrival < v_arrival);
    IF v_held.owner IS NULL AND v_before IS NULL THEN
        IF v_arrival IS NOT NULL THEN
            DELETE FROM holdfast.lock_line AS l WHERE l.ns = p_ns AND l.name = p_name AND l.owner = p_owner;
        END IF;
        -- What ended long ago and nobody asks for. Who is at it already sees to it.
        DELETE FROM holdfast.lock AS k WHERE k.ctid IN (
            SELECT o.ctid FROM holdfast.lock AS o WHERE o.until <= v_now - 60000000 ORDER BY o.until LIMIT 2
            FOR UPDATE SKIP LOCKED);
        DELETE FROM holdfast.lock_line AS l WHERE l.ctid IN (
            SELECT o.ctid FROM holdfast.lock_line AS o WHERE o.until <= v_now - 60000000 ORDER BY o.until LIMIT 2
            FOR UPDATE SKIP LOCKED);
        INSERT INTO holdfast.lock_token AS t (ns, token) VALUES (p_ns, v_now)
        ON CONFLICT (ns) DO UPDATE SET token = greatest(t.token + 1, excluded.token) RETURNING t.token INTO token;
        INSERT INTO holdfast.lock AS k (ns, name, owner, token, until) VALUES (p_ns, p_name, p_owner, token, v_now + p_ttl)
        ON CONFLICT (ns, name) DO UPDATE
            SET owner = excluded.owner, token = excluded.token, until = excluded.until;
        RETURN;
    END IF;
    -- A place that a crash of the server forgets is taken anew.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF v_arrival IS NOT NULL AND p_place > 0 THEN
        UPDATE holdfast.lock_line AS l SET until = v_now + p_place
        WHERE l.ns = p_ns AND l.name = p_name AND l.owner = p_owner;
    ELSIF p_place > 0 THEN
        INSERT INTO holdfast.lock_line (ns, name, owner, mark, until)
        VALUES (p_ns, p_name, p_owner, p_mark, v_now + p_place);
    END IF;
    after := greatest(v_held.until, v_before) - v_now;
END
$$;

-- Prolongs what is held: which of them are. In the order of their names, so that two such calls cannot wait for each other.
CREATE FUNCTION holdfast.lock_renew_v1(
    p_ns integer, p_names text[], p_owners text[], p_tokens bigint[], p_ttls bigint[]
) RETURNS boolean[] LANGUAGE plpgsql
AS $$
DECLARE
    v_held boolean[] := array_fill(false, ARRAY[cardinality(p_names)]);
    v_place integer;
BEGIN
    FOR v_place IN SELECT n.place FROM unnest(p_names) WITH ORDINALITY AS n(name, place) ORDER BY n.name COLLATE "C" LOOP
        UPDATE holdfast.lock AS k SET until = greatest(k.until, holdfast.now_v1() + p_ttls[v_place])
        WHERE k.ns = p_ns AND k.name = p_names[v_place] AND k.owner = p_owners[v_place] AND k.token = p_tokens[v_place]
          AND k.until > holdfast.now_v1();
        v_held[v_place] := FOUND;
    END LOOP;
    RETURN v_held;
END
$$;

-- Frees the lock, without a token also the owner's place. Tells whose turn it is thereby: by its answer if that one waits
-- where the caller is, else on the channel.
CREATE FUNCTION holdfast.lock_release_v1(
    p_ns integer, p_name text, p_owner text, p_token bigint, p_mark text, p_channel text
) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
    v_left boolean := false;
    v_owner text;
    v_mark text;
BEGIN
    PERFORM holdfast.lock_enter_v1(p_ns, p_name);
    -- A release that a crash of the server forgets comes with the end of the lease.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_token IS NULL THEN
        DELETE FROM holdfast.lock_line AS l WHERE l.ns = p_ns AND l.name = p_name AND l.owner = p_owner;
        v_left := FOUND;
    END IF;
    DELETE FROM holdfast.lock AS k
    WHERE k.ns = p_ns AND k.name = p_name AND k.owner = p_owner AND k.token = coalesce(p_token, k.token);
    IF NOT FOUND AND NOT v_left
        OR EXISTS (SELECT FROM holdfast.lock AS k WHERE k.ns = p_ns AND k.name = p_name AND k.until > holdfast.now_v1())
    THEN
        RETURN NULL;
    END IF;
    SELECT l.owner, l.mark INTO v_owner, v_mark FROM holdfast.lock_line AS l
    WHERE l.ns = p_ns AND l.name = p_name AND l.until > holdfast.now_v1() ORDER BY l.arrival LIMIT 1;
    IF v_mark = p_mark THEN
        RETURN v_owner;
    END IF;
    IF v_owner IS NOT NULL AND p_channel IS NOT NULL THEN
        PERFORM pg_notify(p_channel, v_owner);
    END IF;
    RETURN NULL;
END
$$;

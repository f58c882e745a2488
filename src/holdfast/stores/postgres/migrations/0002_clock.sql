-- min-client: 1
-- The store's clock.
CREATE FUNCTION holdfast.now_v1() RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- The id of an instant's first job, by the layout of UUID version 7.
CREATE FUNCTION holdfast.id_at_v1(p_instant bigint) RETURNS uuid LANGUAGE sql IMMUTABLE
AS $$ SELECT rpad(lpad(to_hex(p_instant / 1000), 12, '0'), 32, '0')::uuid $$;

-- The namespace's number; makes it if there is none. Reads first: the insert would wait for other transactions.
CREATE FUNCTION holdfast.namespace_v1(p_name text) RETURNS integer LANGUAGE plpgsql
AS $$
DECLARE
    v_id integer;
BEGIN
    SELECT id INTO v_id FROM holdfast.namespace WHERE name = p_name;
    IF NOT FOUND THEN
        INSERT INTO holdfast.namespace (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
        SELECT id INTO STRICT v_id FROM holdfast.namespace WHERE name = p_name;
    END IF;
    RETURN v_id;
END
$$;

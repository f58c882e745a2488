"""The roles of a database: who may add jobs, who may work on them, who may change the tables."""

import re
from collections.abc import Iterable

from holdfast.stores.postgres.address import Address, checked_name

_MADE = re.compile(r"^CREATE (?:UNLOGGED )?(TABLE|VIEW|FUNCTION) holdfast\.(\w+)", re.MULTILINE)
_READ = (
    "schema",
    "namespace",
    "job",
    "done",
    "attempt",
    "tally",
    "worker",
    "queue",
    "live",
    "finished",
    "jobs",
)
_LOCKED = ("lock", "lock_line", "lock_token")
_TOLD = ("outbox", "event", "event_head", "event_floor")
_FLOW = ("flowing", "limits", "gate", "behind", "link", "halt", "fair", "note")
_CHANGED = (
    *("job", "lease", "done", "done_other", "attempt", "key", "tally", "worker", "queue", "schedule"),
    *("standing", *_LOCKED, *_TOLD, *_FLOW),
)
_ADDING = (
    *("now_v1", "namespace_v1", "add_v1", "add_fresh_v1", "add_lone_v1", "add_json_v1"),
    *("append_v1", "append_json_v1"),
)

_ROLES = """-- The roles of Holdfast. Run this after `holdfast migrate`, and again after each upgrade, as a
-- superuser, or as the owner of the tables who may create roles. Then give them to those who log in, as in
--   GRANT {worker} TO somebody;
--   {producer} adds jobs and appends events, also in its own transactions, and reads what became of the jobs
--   {worker} does all that a worker does, and steers jobs, queues and schedules
--   {admin} owns the tables, and changes them: holdfast migrate
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(hashtextextended('holdfast.', 0));
DO $do$ DECLARE role text; BEGIN
    FOREACH role IN ARRAY ARRAY['{producer}', '{worker}', '{admin}'] LOOP
        IF to_regrole(role) IS NULL THEN EXECUTE format('CREATE ROLE %I NOLOGIN', role); END IF;
    END LOOP;
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        GRANT {admin} TO CURRENT_USER;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    IF to_regrole('{admin}') IS NULL THEN RAISE; END IF;
END $do$;
"""
_PARTITIONS = """DO $do$ DECLARE part regclass; BEGIN
    FOR part IN SELECT inhrelid FROM pg_inherits
        WHERE inhparent IN ('holdfast.done'::regclass, 'holdfast.attempt'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO {admin}', part);
        EXECUTE format('REVOKE ALL ON TABLE %s FROM PUBLIC', part);
    END LOOP;
END $do$;"""


def roles_as_sql(address: Address, prefix: str, scripts: Iterable[str]) -> str:
    """The roles as SQL that can be run again, for all that the scripts make."""
    checked_name("role prefix", prefix)
    names = {role: f"{prefix}_{role}" for role in ("producer", "worker", "admin")}
    producer, worker, admin = names.values()
    made: dict[str, list[str]] = {"TABLE": ["schema"], "VIEW": [], "FUNCTION": []}
    for script in scripts:
        for kind, name in _MADE.findall(script):
            made[kind].append(name)
    tables = _listed([*made["TABLE"], *made["VIEW"]])
    functions = _listed(made["FUNCTION"])
    nobody = f"FROM PUBLIC, {producer}, {worker}"
    schema = f'"{address.schema}"'
    # A schema that is shared with other tables stays its owner's.
    is_ours = not address.prefix and address.schema != "public"
    lines = [
        f"ALTER SCHEMA {schema} OWNER TO {admin};"
        if is_ours
        else f"GRANT CREATE ON SCHEMA {schema} TO {admin};",
        *([f"REVOKE ALL ON SCHEMA {schema} {nobody};"] if is_ours else []),
        f"GRANT USAGE ON SCHEMA {schema} TO {producer}, {worker}, {admin};",
        *(f"ALTER {kind} holdfast.{name} OWNER TO {admin};" for kind, all_ in made.items() for name in all_),
        _PARTITIONS.replace("{admin}", admin),
        f"REVOKE ALL ON TABLE {tables} {nobody};",
        f"REVOKE ALL ON FUNCTION {functions} {nobody};",
        "",
        f"GRANT SELECT ON TABLE {_listed(_READ)} TO {producer};",
        f"GRANT INSERT (name) ON TABLE holdfast.namespace TO {producer};",
        f"GRANT EXECUTE ON FUNCTION {_listed(_ADDING)} TO {producer};",
        "",
        f"GRANT SELECT ON TABLE {tables} TO {worker};",
        f"GRANT INSERT, UPDATE, DELETE ON TABLE {_listed(_CHANGED)} TO {worker};",
        f"GRANT INSERT (name), UPDATE (retention) ON TABLE holdfast.namespace TO {worker};",
        f"GRANT EXECUTE ON FUNCTION {functions} TO {worker};",
        "COMMIT;",
        "",
    ]
    opening = _ROLES.format(**names)
    return opening + address.rendered("\n".join(lines))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"holdfast.{name}" for name in names)

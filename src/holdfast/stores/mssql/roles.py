"""The roles of a database: who may add jobs, who may work on them, who may change the tables."""

import re
from typing import Final

from holdfast.stores.parameters import wrong

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,99}", re.ASCII)
_ADDING: Final = ("now_v1", "namespace_v1", "add_v1", "append_v1", "append_jobs_v1")
_READ: Final = ("step", "job", "live", "finished", "jobs", "tally", "attempt", "worker", "queue")
_ROLES = """-- The roles of Holdfast. Run this after `holdfast migrate` and after each upgrade, as an owner
-- of the database. Then give them to users of it, as in
--   ALTER ROLE [{worker}] ADD MEMBER [somebody];
-- {producer} adds jobs and appends events, also in its own transactions, and reads what became of the jobs
-- {worker} does all that a worker does, and steers jobs, queues and schedules
-- {admin} changes the tables: holdfast migrate
"""


def roles_as_sql(schema: str, prefix: str) -> str:
    """The roles as a script for `sqlcmd`, which can be run again."""
    names = {role: f"{prefix}_{role}" for role in ("producer", "worker", "admin")}
    if not all(map(_NAME.fullmatch, names.values())):
        raise wrong(
            f"{prefix!r} cannot begin the names of roles: use up to 90 lower-case ASCII letters, digits and "
            "_, and no digit first"
        )
    parts = (
        producer_as_sql(schema, names["producer"]),
        worker_as_sql(schema, names["worker"]),
        admin_as_sql(schema, names["admin"]),
    )
    return _ROLES.format(**names) + "".join(f"{part}GO\n" for part in parts)


def producer_as_sql(schema: str, role: str) -> str:
    """Whoever adds jobs and reads what became of them, and can change none.

    What the procedures write needs no right of whoever calls them: they have the same owner as the tables.
    """
    return _listed(
        _made(role),
        *(f"GRANT EXECUTE ON OBJECT::[{schema}].[{name}] TO [{role}]" for name in _ADDING),
        *(f"GRANT SELECT ON OBJECT::[{schema}].[{name}] TO [{role}]" for name in _READ),
    )


def worker_as_sql(schema: str, role: str) -> str:
    """Workers: they use the tables, and can neither change them nor see others.

    It holds for what a later migration adds to the schema too.
    """
    return _listed(
        _made(role),
        f"GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON SCHEMA::[{schema}] TO [{role}]",
    )


def admin_as_sql(schema: str, role: str) -> str:
    """Whoever makes and changes what is in the schema, and nothing outside it."""
    return _listed(
        _made(role),
        f"GRANT CONTROL ON SCHEMA::[{schema}] TO [{role}]",
        f"GRANT CREATE TABLE, CREATE VIEW, CREATE PROCEDURE, CREATE FUNCTION TO [{role}]",
    )


def _made(role: str) -> str:
    return f"IF DATABASE_PRINCIPAL_ID(N'{role}') IS NULL CREATE ROLE [{role}]"


def _listed(*statements: str) -> str:
    return "".join(f"{statement};\n" for statement in statements)

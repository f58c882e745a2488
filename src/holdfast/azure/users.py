"""The least that a worker needs in the database, and who gets it: T-SQL that can be run again."""

from __future__ import annotations

from typing import Final

from holdfast.stores.mssql.roles import worker_as_sql

ROLE: Final = "holdfast_worker"
SCHEMA: Final = "holdfast"


def quoted(name: str) -> str:
    """A name as an identifier, whatever it is made of."""
    return f"[{name.replace(']', ']]')}]"


def literal(text: str) -> str:
    """A text as a constant, whatever it is made of."""
    return "N'" + text.replace("'", "''") + "'"


def role_sql(role: str = ROLE, schema: str = SCHEMA) -> str:
    """The role of workers, as the store itself makes it."""
    return worker_as_sql(schema, role)


def user_sql(identity: str, role: str = ROLE) -> str:
    """A user for an identity of Entra ID, without login or password, in the role."""
    return (
        f"IF DATABASE_PRINCIPAL_ID({literal(identity)}) IS NULL\n"
        f"    CREATE USER {quoted(identity)} FROM EXTERNAL PROVIDER;\n"
        f"ALTER ROLE {quoted(role)} ADD MEMBER {quoted(identity)};\n"
    )

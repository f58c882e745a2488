"""The schema of a store that has one."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


class Migrations(Protocol):
    """The schema: versioned, forward only, safe to apply concurrently."""

    async def pending(self) -> list[str]:
        """Names of the steps that are not applied yet.

        Raises SchemaMismatch if the stored schema is too new.
        """
        ...

    async def apply(self) -> list[str]:
        """Applies what is pending; the names of the steps applied by this call."""
        ...

    def as_sql(self) -> str:
        """All steps as plain SQL for a database administrator."""
        ...


@runtime_checkable
class Roles(Migrations, Protocol):
    """Migrations of a store that knows who is who."""

    def roles_as_sql(self, prefix: str) -> str:
        """Roles for producer, worker and admin, named after the prefix, as SQL that can be run again."""
        ...

"""The schemas of all partitions that have one."""

from collections.abc import Mapping

from holdfast.model.errors import StoreError
from holdfast.store import Migrations, Roles
from holdfast.stores.partitioned.branch import named


class PartitionedMigrations:
    """Each partition's own steps, with its name before them."""

    def __init__(self, migrations: Mapping[str, Migrations]) -> None:
        self._migrations = migrations

    async def pending(self) -> list[str]:
        return [
            f"{name}: {step}"
            for name, each in self._migrations.items()
            for step in await _pending(name, each)
        ]

    async def apply(self) -> list[str]:
        """One partition after the other. If one fails, those before it are up to date; run it again."""
        steps: list[str] = []
        for name, each in self._migrations.items():
            try:
                steps += [f"{name}: {step}" for step in await each.apply()]
            except StoreError as error:
                raise named(error, name) from error
        return steps

    def as_sql(self) -> str:
        return "\n".join(f"-- partition {name}\n{each.as_sql()}" for name, each in self._migrations.items())


class PartitionedRoles(PartitionedMigrations):
    """The same of partitions that all know who is who."""

    def __init__(self, migrations: Mapping[str, Roles]) -> None:
        super().__init__(migrations)
        self._roles = migrations

    def roles_as_sql(self, prefix: str) -> str:
        parts = (f"-- partition {name}\n{each.roles_as_sql(prefix)}" for name, each in self._roles.items())
        return "\n".join(parts)


async def _pending(name: str, migrations: Migrations) -> list[str]:
    try:
        return await migrations.pending()
    except StoreError as error:
        raise named(error, name) from error


def migrations_of(found: Mapping[str, Migrations | None]) -> Migrations | None:
    """All that there are as one; None if no partition has any."""
    known = {name: each for name, each in found.items() if each is not None}
    roles = {name: each for name, each in known.items() if isinstance(each, Roles)}
    if not known:
        return None
    return PartitionedRoles(roles) if len(roles) == len(known) else PartitionedMigrations(known)

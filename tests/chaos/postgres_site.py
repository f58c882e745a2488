"""A database on a PostgreSQL server instead of a file, with real worker processes on it."""

import random
from pathlib import Path
from typing import Any, Self, Unpack

from holdfast.model.overrides import Overrides
from holdfast.stores import open_store
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.servers.sql import execute

KILL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'holdfast'"""


class PostgresSite(Site):
    """A migrated database. `direct` is the way to it that nothing disturbs, if the workers have another."""

    def __init__(
        self, folder: Path, url: str, *, direct: str | None = None, **settings: Unpack[Overrides]
    ) -> None:
        super().__init__(folder, url=url, **settings)
        self.direct = direct or url

    async def __aenter__(self) -> Self:
        store = open_store(self.url)
        assert store.migrations is not None
        await store.migrations.apply()
        await store.close()
        return await super().__aenter__()

    def worker(self, *options: str, app: str = "tests.chaos.program:app", **environ: str) -> Process:
        return self.start("-m", "holdfast", "worker", app, *options, **environ)

    def query(self, sql: str, *values: object) -> list[Any]:
        return [tuple(row) for row in execute(self.direct, sql, *values)]

    def kill_backends(self) -> int:
        """Ends every connection of ours, whoever has it; how many there were."""
        return len(self.query(KILL))


def seeded(name: str) -> random.Random:
    """Draws that are other ones in every test and the same in every run of it."""
    return random.Random(name)

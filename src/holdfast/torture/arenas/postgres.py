"""PostgreSQL as an arena."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast.torture.arenas.server import Server, ServerArena
from holdfast.torture.network import Talk
from holdfast.torture.programs.witness import CANARY
from holdfast.torture.servers.postgres import PostgresServer
from holdfast.torture.talks import PostgresTalk

_OTHERS = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND application_name <> 'torture'"""


class PostgresArena(ServerArena):
    """The tables of handlers lie beside Holdfast's, in a schema of their own, made anew."""

    kind = "postgresql"
    default_port = 5432

    def make_talk(self) -> Talk:
        return PostgresTalk()

    def make_server(self, folder: Path, logs: Path) -> Server:
        return PostgresServer(folder, logs, CANARY)

    async def prepare(self) -> None:
        async with self._connected() as connection:
            await connection.execute("DROP TABLE IF EXISTS ledger, billed")
            await connection.execute("CREATE TABLE ledger (job text, token bigint)")
            await connection.execute("CREATE TABLE billed (event text, aggregate text, version bigint)")

    async def ledger(self) -> list[tuple[str, int]]:
        async with self._connected() as connection:
            return [(row[0], row[1]) for row in await connection.fetch("SELECT job, token FROM ledger")]

    async def cut_backends(self, draw: random.Random) -> int:
        async with self._connected() as connection:
            found = [row[0] for row in await connection.fetch(_OTHERS)]
            chosen = draw.sample(found, min(len(found), draw.randint(1, 4)))
            for pid in chosen:
                await connection.execute("SELECT pg_terminate_backend($1)", pid)
            return len(chosen)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Any]:
        asyncpg: Any = import_module("asyncpg")
        try:
            connection = await asyncpg.connect(
                self.direct, timeout=5, server_settings={"application_name": "torture"}
            )
        except (asyncpg.PostgresError, TimeoutError) as error:
            raise OSError(str(error)) from None
        try:
            yield connection
        finally:
            connection.terminate()

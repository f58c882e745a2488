"""Redis as an arena. It has no transactions to join, so there is no ledger."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.torture.arenas.server import Server, ServerArena
from holdfast.torture.network import HOST, Talk
from holdfast.torture.programs.witness import CANARY
from holdfast.torture.servers.redis import RedisServer, command
from holdfast.torture.talks import RedisTalk


class RedisArena(ServerArena):
    """A namespace of a server."""

    kind = "redis"
    default_port = 6379

    def make_talk(self) -> Talk:
        return RedisTalk()

    def make_server(self, folder: Path, logs: Path) -> Server:
        return RedisServer(folder, logs, CANARY)

    async def prepare(self) -> None:
        """Handlers write nothing here beside their jobs."""

    async def ledger(self) -> list[tuple[str, int]]:
        return []

    async def cut_backends(self, draw: random.Random) -> int:
        return await asyncio.to_thread(self._cut, draw)

    def _cut(self, draw: random.Random) -> int:
        parts = urlsplit(self.direct)
        ask = partial(command, parts.hostname or HOST, parts.port or self.default_port, parts.password)
        listed = ask("CLIENT", "LIST")
        ids = [line.split(" ", 1)[0].removeprefix("id=") for line in listed.splitlines() if line]
        chosen = draw.sample(ids, min(len(ids), draw.randint(1, 4)))
        for each in chosen:
            ask("CLIENT", "KILL", "ID", each)
        return len(chosen)

"""COPY into the very table in which Holdfast keeps its jobs: the bound of every bulk insert."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.programs.holdfast_program import HoldfastQueue
from benchmarks.programs.speaking import main
from holdfast.engine.ids import new_id

COLUMNS = ("ns", "id", "task", "queue", "payload", "priority", "due", "ready", "created")
PAYLOAD = b'{"sent":0}'


class CopyQueue(HoldfastQueue):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._url = url
        self._connection: Any = None
        self._ns = 0

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        self._connection = await import_module("asyncpg").connect(self._url)
        self._ns = await self._connection.fetchval("SELECT holdfast.namespace_v1('default')")
        yield
        await self._connection.close()

    async def push_many(self, count: int) -> None:
        now, ns = time.time_ns() // 1_000, self._ns
        rows = [(ns, new_id(), "work", "default", PAYLOAD, 0, now, True, now) for _ in range(count)]
        await self._connection.copy_records_to_table(
            "job", schema_name="holdfast", columns=COLUMNS, records=rows
        )


if __name__ == "__main__":
    main(CopyQueue)

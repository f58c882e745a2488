"""Procrastinate, on a pool of psycopg."""

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

from benchmarks.programs.speaking import Body, main

CONNECTIONS = 20


class ProcrastinateQueue:
    def __init__(self, url: str) -> None:
        procrastinate: Any = import_module("procrastinate")
        connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONNECTIONS)
        self._app = procrastinate.App(connector=connector)
        body = Body()

        async def work(sent: int) -> None:
            body.run(sent)

        self._task: Any = self._app.task(name="work")(work)

    def opened(self) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self._app.open_async()
        return found

    async def setup(self) -> None:
        async with self.opened():
            await self._app.schema_manager.apply_schema_async()

    async def push(self, sent: int) -> None:
        await self._task.defer_async(sent=sent)

    async def push_many(self, count: int) -> None:
        await self._task.batch_defer_async(*[{"sent": 0}] * count)

    async def work(self) -> None:
        async with self.opened():
            await self._app.run_worker_async(concurrency=CONNECTIONS)


if __name__ == "__main__":
    main(ProcrastinateQueue)

"""Work that goes on while a server is disturbed."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from holdfast import Job, OutcomeUnknown
from holdfast.engine.ids import new_id
from holdfast.model.errors import StoreUnavailable
from tests.chaos import program
from tests.chaos.harness import Site
from tests.chaos.process import Process
from tests.chaos.waiting import until


class Load:
    """Jobs that are added all the time, each until the store has said that it has it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.jobs: list[Job[Any]] = []

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        adding = asyncio.create_task(self._add())
        try:
            yield
        finally:
            adding.cancel()
            await asyncio.wait([adding])
            if not adding.cancelled():
                adding.result()

    async def _add(self) -> None:
        while True:
            call = program.work.using(id=new_id()).call()
            while True:
                try:
                    self.jobs += await self._site.add(call)
                    break
                except (OutcomeUnknown, StoreUnavailable):
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.01)

    async def flows(self, count: int = 5) -> None:
        """Waits until some more jobs were added and done."""
        before = len(self._site.effects("ended"))
        await until(
            lambda: len(self._site.effects("ended")),
            "work goes on",
            lambda ended: ended >= before + count,
            show=self._site.printed,
        )


def check_unharmed(workers: list[Process]) -> None:
    for worker in workers:
        assert worker.code is None, worker.output

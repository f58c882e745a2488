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
from tests.chaos.waiting import PATIENCE, until


class Load:
    """Jobs that are added all the time, each until the store has said that it has it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.jobs: list[Job[Any]] = []
        self._is_over = False

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncGenerator[None]:
        self._is_over = False
        adding = asyncio.create_task(self._add())
        try:
            yield
        finally:
            # Not cut short: the store may have a job already that nobody here would know of.
            self._is_over = True
            await asyncio.wait_for(adding, PATIENCE)

    async def _add(self) -> None:
        while not self._is_over:
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

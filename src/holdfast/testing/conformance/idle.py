"""Workers whose wants stand, for tests of what is handed over to them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.model.records import Handed, Move, Tick, Ticked, Want
from holdfast.store import Handovers, Session
from holdfast.testing.conformance.case import LONG, Case, ended, new_job, wanted, worker_record

SOON = 5
"""Seconds in which a job must have been handed over."""


class Idle:
    """A worker with a session of its own, which is told what was claimed for it."""

    def __init__(self, session: Session, name: str) -> None:
        assert isinstance(session.wakeups, Handovers)
        self.session = session
        self.name = name
        self.told: asyncio.Queue[Handed] = asyncio.Queue()
        self.seqs = count(1)
        self._stops = [session.wakeups.listen(lambda: None), session.wakeups.receive(self.told.put_nowait)]

    async def tick(
        self,
        want: Want | None = None,
        moves: Sequence[Move] = (),
        seq: int | None = None,
        stood: int | None = None,
        repeat: bool = False,
    ) -> Ticked:
        seq = next(self.seqs) if seq is None else seq
        tick = Tick(worker=self.name, seq=seq, moves=list(moves), want=want, repeat=repeat, stood=stood)
        return await self.session.jobs.tick(tick)

    async def stand(self, want: Want | None = None, stood: int | None = None) -> int:
        """Lets a want stand; the seq of its tick."""
        seq = next(self.seqs)
        ticked = await self.tick(standing() if want is None else want, seq=seq, stood=stood)
        assert ticked.stands
        return seq

    async def handed(self) -> Handed:
        return await asyncio.wait_for(self.told.get(), SOON)

    async def listens(self) -> None:
        """Waits until something is handed over: a session may need a moment until it hears."""
        probe = standing("probe")
        for _ in range(100):
            seq = next(self.seqs)
            if (await self.tick(probe, seq=seq)).stands:
                await self.session.jobs.add([new_job(queue="probe", fresh=True)])
                ticked = await self.tick(probe, stood=seq)
                for job in ticked.claimed:
                    await self.tick(moves=[ended(job)])
                if ticked.handed:
                    await self.handed()
                    return
            await asyncio.sleep(0.05)
        pytest.fail("nothing was handed over")

    def stop(self) -> None:
        for stop in self._stops:
            stop()


@asynccontextmanager
async def idle(case: Case, name: str = "ann", lease: int = LONG) -> AsyncGenerator[Idle]:
    session = await case.open()
    await session.fleet.register(worker_record(name), lease)
    worker = Idle(session, name)
    try:
        await worker.listens()
        yield worker
    finally:
        worker.stop()


def standing(*queues: str, **fields: Any) -> Want:
    return replace(wanted(*queues, **fields), stands=LONG)

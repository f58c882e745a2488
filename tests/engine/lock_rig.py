"""Locks on a memory store that fails on command, its clock moved by hand."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from threading import Event

from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notice, Notices
from holdfast.store import Session, Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from tests.engine.faulty import Faults, FaultyStore

PATIENCE = 20.0
NAME = "invoice:42"


class LockRig:
    def __init__(self, store: Store | None = None) -> None:
        self.clock = ManualClock()
        self.faults = Faults()
        self.store = store or FaultyStore(MemoryStore(self.clock), self.faults)
        self.notices = Notices()
        self.told: list[Notice] = []
        self.notices.listen(self.told.append)
        self.renewer = Renewer(self.connect, self.notices)

    async def connect(self) -> Session:
        return await self.store.connect("default")

    async def locks(self) -> Locks:
        """Another client of the same store and process."""
        return Locks((await self.connect()).locks, self.renewer, self.notices)

    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.told]


@asynccontextmanager
async def rig(store: Store | None = None) -> AsyncGenerator[tuple[LockRig, Locks]]:
    made = LockRig(store)
    try:
        async with asyncio.timeout(PATIENCE):
            yield made, await made.locks()
    finally:
        await made.renewer.stop()


async def reached(event: Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def is_free(locks: Locks, name: str = NAME) -> bool:
    grant = await locks.try_lock(name)
    if grant is not None:
        await grant.release()
    return grant is not None

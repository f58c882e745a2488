"""One of many leads; the next in line takes over when it resigns, or when its lease runs out."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from holdfast.engine import surroundings
from holdfast.engine.candidate import Candidate
from holdfast.engine.leader import LEADER, who_leads
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.model.errors import LeaseLost, StoreUnavailable
from holdfast.model.records import LockWish
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from tests.engine.rig import Rig, Seen

PATIENCE = 10


class Waiter:
    """A candidate whose duty is to wait. `led` has the terms that it had."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notices = Notices()
        self.seen = Seen(self.notices)
        self.led: asyncio.Queue[Term] = asyncio.Queue()
        self.ends: asyncio.Queue[Exception] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def standing(self, store: Store, lease: float = 30.0) -> AsyncGenerator["Waiter"]:
        session = await store.connect("default")
        renewer = Renewer(lambda: store.connect("default"), self.notices)
        locks = Locks(session.locks, renewer, self.notices)
        candidate = Candidate(locks, LEADER, self.name, lease, self.notices, "leader")
        self.task = asyncio.create_task(candidate.stand(self._duty))
        try:
            yield self
        finally:
            self.task.cancel()
            await asyncio.wait([self.task])
            await locks.close()
            await renewer.stop()

    async def leads(self) -> Term:
        async with asyncio.timeout(PATIENCE):
            return await self.led.get()

    async def _duty(self, term: Term) -> None:
        self.led.put_nowait(term)
        raise await self.ends.get()


async def test_one_leads_and_the_next_takes_over_at_once_when_it_resigns() -> None:
    store = MemoryStore()
    first, second = Waiter("first"), Waiter("second")
    async with first.standing(store):
        term = await first.leads()
        async with second.standing(store):
            assert second.led.empty()
            info = await who_leads((await store.connect("default")).locks)
            assert info is not None
            assert (info.worker, info.term) == ("first", term.token)
            assert first.task is not None
            first.task.cancel()
            began = surroundings.now()
            later = await second.leads()
            assert surroundings.now() - began < 5, "long before the lease of thirty seconds has run out"
            assert later.token > term.token


async def test_one_whose_term_is_over_stands_again() -> None:
    store = MemoryStore()
    async with Waiter("first").standing(store) as candidate:
        term = await candidate.leads()
        candidate.ends.put_nowait(LeaseLost("the term is over"))
        assert (await candidate.leads()).token > term.token
        await candidate.seen.wait("leader_lost")
        await candidate.seen.wait("leader_elected", count=2)


async def test_an_outage_is_waited_out() -> None:
    rig = Rig()
    rig.faults.plan("acquire", before=StoreUnavailable("gone"), times=3)
    async with Waiter("first").standing(rig.store) as candidate:
        await candidate.leads()
        candidate.ends.put_nowait(StoreUnavailable("gone"))
        await candidate.leads()


async def test_whatever_its_duty_raises_it_stands_again() -> None:
    async with Waiter("first").standing(MemoryStore()) as candidate:
        await candidate.leads()
        candidate.ends.put_nowait(ValueError("a defect"))
        await candidate.leads()


async def test_it_takes_over_when_the_lease_of_a_dead_leader_runs_out() -> None:
    store = MemoryStore()
    session = await store.connect("default")
    wish = LockWish(name=LEADER, owner="dead", ttl=2 * SECOND, place=0)
    dead = await session.locks.acquire(wish)
    async with Waiter("first").standing(store) as candidate:
        term = await candidate.leads()
        assert dead.token is not None
        assert term.token - dead.token >= 2 * SECOND, "tokens follow the store's clock"

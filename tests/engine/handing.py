"""A store in memory that keeps wants: the test says when jobs are handed over, and who hears of it."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.engine.worker import Worker
from holdfast.model.records import Handed, Tick, Ticked, Want
from holdfast.store import Session, Store
from tests.engine.faulty import FaultyStore
from tests.engine.rig import Rig


class Shelf:
    """The want that stands, of one worker at most, and the ears of its session. Nobody is woken otherwise."""

    def __init__(self) -> None:
        self.worker = ""
        self.seq: int | None = None
        self.want: Want | None = None
        self.left = 0
        self.fulfilled: int | None = None
        self.takers: list[Callable[[Handed], None]] = []
        self.stood = asyncio.Event()
        self.jobs: Any = None

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def receive(self, take: Callable[[Handed], None]) -> Callable[[], None]:
        self.takers.append(take)
        return lambda: self.takers.remove(take)

    async def standing(self) -> int:
        """Waits until a want stands; the seq of its tick."""
        await asyncio.wait_for(self.stood.wait(), 10)
        assert self.seq is not None
        return self.seq

    async def hand(self, *, header_only: bool = False) -> Handed:
        """Claims what is ready for the want that stands; what its session is to be told."""
        seq = await self.standing()
        assert self.want is not None
        want = replace(self.want, limit=self.left, stands=False)
        ticked = await self.jobs.tick(Tick(worker=self.worker, seq=-seq, moves=[], want=want))
        assert ticked.claimed, "nothing is ready"
        self.end()
        self.fulfilled = seq
        told = [] if header_only else ticked.claimed
        return Handed(worker=self.worker, seq=seq, after=0, claimed=told)

    def tell(self, handed: Handed) -> None:
        for take in list(self.takers):
            take(handed)

    def end(self) -> None:
        self.seq = self.want = None
        self.stood.clear()

    async def tick(self, tick: Tick) -> Ticked:
        """As the seam says, by ticks of a store that knows nothing of it."""
        want, stood = tick.want, tick.stood
        handed: list[Any] = []
        if stood is not None:
            if self.seq == stood:
                self.end()
            if self.fulfilled == stood or tick.repeat:
                handed = await self._claimed(tick.worker, -stood)
        if tick.repeat and want is not None:
            own = await self._claimed(tick.worker, -tick.seq)
        else:
            own = []
        limit = 0 if want is None or handed or own else want.limit
        inner = None if want is None else replace(want, limit=limit, stands=False)
        ticked: Ticked = await self.jobs.tick(replace(tick, want=inner, stood=None))
        ticked.claimed = handed + own + ticked.claimed
        ticked.handed = len(handed)
        if want is not None and want.stands and ticked.registered and len(ticked.claimed) < limit:
            self.worker, self.seq, self.want = tick.worker, tick.seq, want
            self.left = limit - len(ticked.claimed)
            self.fulfilled = None
            ticked.stands = True
            self.stood.set()
        return ticked

    async def _claimed(self, worker: str, seq: int) -> list[Any]:
        want = Want(queues=("default",), tasks=frozenset(), limit=0, lease=1)
        again = Tick(worker=worker, seq=seq, moves=[], want=want, repeat=True)
        return list((await self.jobs.tick(again)).claimed)


class _Jobs:
    def __init__(self, session: Session, shelf: Shelf) -> None:
        self._jobs = shelf.jobs = session.jobs
        self.tick = shelf.tick

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)


class _Session:
    def __init__(self, session: Session, shelf: Shelf) -> None:
        self._session = session
        self.jobs: Any = _Jobs(session, shelf)
        self.wakeups = shelf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class _Store:
    def __init__(self, store: Store, shelf: Shelf) -> None:
        self._store = store
        self._shelf = shelf

    async def connect(self, namespace: str) -> Any:
        return _Session(await self._store.connect(namespace), self._shelf)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def shelved(rig: Rig) -> Shelf:
    """Lets wants of the rig's worker stand."""
    shelf = Shelf()
    rig.store = FaultyStore(_Store(rig.memory, shelf), rig.faults)
    return shelf


def ticks_of(rig: Rig, worker: Worker) -> list[Tick]:
    return [tick for tick in rig.faults.ticks if tick.worker == worker.id]

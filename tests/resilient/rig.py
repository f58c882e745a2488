"""A resilient store over one that fails on command, in a time that passes only while somebody sleeps."""

import asyncio
from typing import Any

from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.records import NewJob, Tick, Want, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import Breaker, ResilientStore
from tests.engine.faulty import Faults, FaultyStore

DOWN = StoreUnavailable("connection refused")
LOST = OutcomeUnknown("the answer was lost")


class Time:
    """Seconds that pass when somebody sleeps, and at once."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Rig:
    def __init__(self, **settings: Any) -> None:
        self.time = Time()
        self.faults = Faults()
        self.memory = MemoryStore()
        self.breaker = Breaker(clock=self.time.clock)
        self.store = ResilientStore(
            FaultyStore(self.memory, self.faults),
            **{
                "breaker": self.breaker,
                "sleep": self.time.sleep,
                "clock": self.time.clock,
                **settings,
            },
        )

    async def open(self) -> Session:
        return await self.store.connect("test")

    async def open_circuit(self, session: Session) -> None:
        """Lets the store be away for so long that the circuit opens, by the calls of one caller."""
        self.faults.down = DOWN
        while not self.breaker.is_open:
            try:
                await session.jobs.get("any")
            except StoreUnavailable:
                self.time.now += 0.1


def job(job_id: str = "a", **fields: Any) -> NewJob:
    return NewJob(**{"id": job_id, "task": "send", "queue": "mail", "payload": b"[]", **fields})


def worker(name: str = "ann") -> WorkerRecord:
    return WorkerRecord(id=name, host="h", pid=1, queues=("mail",), tasks=("send",), concurrency=1)


def claim(seq: int = 1, **fields: Any) -> Tick:
    want = Want(queues=("mail",), tasks=frozenset({"send"}), limit=1, lease=60 * SECOND)
    return Tick(**{"worker": "ann", "seq": seq, "moves": [], "want": want, **fields})

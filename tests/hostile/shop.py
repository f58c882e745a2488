"""An application with something in every table, and handlers that note what they were given."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import Context, Event, Holdfast, Never, cron, every
from holdfast.model.records import LockWish, Tick, Want, WorkerRecord
from holdfast.model.timing import SECOND

GHOST = "ghost"
GROUP, TOPIC = "billing", "orders"
LONG = 600 * SECOND


@dataclass
class Shop:
    """The application, and the events that its handler has heard of."""

    app: Holdfast
    heard: set[str] = field(default_factory=set)

    @property
    def tasks(self) -> Any:
        return self.app.tasks


def make_shop(url: str) -> Shop:
    app = Holdfast(url, lease_seconds=5, reclaim_seconds=0.2, poll_seconds=0.05, retention_seconds=3600)
    shop = Shop(app)

    @app.task(queue="work", retry=Never())
    async def work(ctx: Context, number: int = 0) -> int:
        if number < 0:
            raise ValueError("as asked")
        return number

    @app.task(queue="idle")
    async def rest(number: int = 0) -> None: ...

    @app.on(TOPIC, group=GROUP, retry=Never())
    async def hear(event: Event) -> None:
        assert event.id is not None
        shop.heard.add(event.id)
        if event.type == "bad":
            raise ValueError("as asked")

    return shop


async def fill(shop: Shop) -> None:
    """Something of each kind, and of most kinds several. Whoever holds leases and locks here is gone."""
    app, work, rest = shop.app, shop.tasks["work"], shop.tasks["rest"]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    async with app:
        await app.enqueue_many([work.using(tags=["a"], key=f"k{n}").call(n) for n in range(3)])
        await app.enqueue_many([work.call(-1) for _ in range(3)])
        await app.emit(Event(topic=TOPIC, type="good", data={"n": 1}, aggregate="o-1"))
        await app.emit(Event(topic=TOPIC, type="bad", data={"n": 2}, aggregate="o-2"))
        await app.limits.set(task="rest", concurrency=3, rate=1000)
        await app.limits.set(key="tenant", concurrency=1)
        halting = work.using(sequence_key="stopped", on_failure="halt")
        await app.enqueue_many([halting.call(-1), halting.call(1)])
        await app.worker(["work"]).run(until_idle=True)
        keyed = [rest.using(limit_key="tenant", fair_key="f", sequence_key=f"s{n % 2}") for n in range(4)]
        await app.enqueue_many([each.call() for each in keyed])
        await app.enqueue_many([rest.using(at=tomorrow).call(n) for n in range(3)])
        first = await rest.using(expires=3600, key="held", at=tomorrow).enqueue()
        await rest.using(after=[first]).enqueue()
        await app.batch(work.call(7)).add(rest.using(at=tomorrow).call())
        await app.schedules.put("nightly", cron("0 3 * * *"), rest.call())
        await app.schedules.put("often", every(3600), Event(topic="clock", type="tick", data={}))
        await app.queues.pause("resting")
        await work.using(tags=["t"], timeout=5, lease=3).enqueue(5)
        await _haunt(app)


async def _haunt(app: Holdfast) -> None:
    """A worker that died with jobs and locks in its hands."""
    session = app.client.session
    record = WorkerRecord(
        id=GHOST, host="h", pid=1, queues=("idle",), tasks=("rest",), concurrency=2, version="1"
    )
    await session.fleet.register(record, LONG)
    await session.fleet.beat(GHOST, LONG, b"{}")
    want = Want(queues=("idle",), tasks=frozenset({"rest"}), limit=2, lease=1)
    await session.jobs.tick(Tick(worker=GHOST, seq=1, moves=[], want=want))
    for name in ("lock-a", "lock-b"):
        await session.locks.acquire(LockWish(name=name, owner=GHOST, ttl=LONG))
    await session.locks.acquire(LockWish(name="lock-a", owner="second", ttl=LONG, place=LONG))

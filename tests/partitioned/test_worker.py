"""One worker serves all partitions: with shared slots, and each as if the others were not there."""

import asyncio
import time
from collections import Counter
from functools import partial

import pytest

from holdfast import Context, Event, Holdfast, OutcomeUnknown, PartlyStored, StoreUnavailable, every
from holdfast.engine.notices import Notice
from holdfast.model.lifecycle import Ending, State
from tests.partitioned.support import NAMES, Switch, application, switched, until

QUEUES = [f"in-{name}" for name in NAMES]


def shop(**settings: object) -> tuple[dict[str, Switch], Holdfast]:
    switches, store = switched()
    return switches, application(store, **settings)


def _is_longer(found: list[str], than: int) -> bool:
    return len(found) > than


async def until_idle(app: Holdfast) -> None:
    """Until nothing waits or runs any more."""
    async with asyncio.timeout(20):
        while (counts := await app.stats()).queued or counts.in_progress:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.05)


async def until_stored(app: Holdfast, schedule: str) -> None:
    async with asyncio.timeout(20):
        while await app.schedules.get(schedule) is None:  # noqa: ASYNC110  it is stored when it can be
            await asyncio.sleep(0.05)


async def test_one_worker_serves_all_partitions_and_is_known_in_each() -> None:
    _, app = shop()

    @app.task
    async def double(number: int) -> int:
        return number * 2

    async with app, app.worker(queues=QUEUES):
        jobs = [await double.using(queue=queue).enqueue(4) for queue in QUEUES]
        assert [await job.result(timeout=10) for job in jobs] == [8, 8, 8]
        [worker] = await app.workers()
        assert worker.live
        assert [info.workers for info in await app.partitions.list()] == [1, 1, 1]
        assert [await app.partitions.of_job(job.id) for job in jobs] == list(NAMES)


async def test_a_worker_that_drains_ends_when_all_partitions_are_empty() -> None:
    _, app = shop()
    ran: list[str] = []

    @app.task(queue="in-a")
    async def first() -> None:
        await second.enqueue()

    @app.task(queue="in-b")
    async def second() -> None:
        await third.enqueue()

    @app.task(queue="in-a")
    async def third() -> None:
        ran.append("third")

    async with app:
        await first.enqueue()
        assert await app.worker().run(until_idle=True) == 0
    assert ran == ["third"]


async def test_never_more_jobs_run_than_the_worker_has_slots() -> None:
    _, app = shop(concurrency=4)
    running = most = 0

    @app.task
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    async with app:
        await app.enqueue_many([work.using(queue=queue).call() for queue in QUEUES for _ in range(60)])
        await app.worker(queues=QUEUES).run(until_idle=True)
        assert (await app.stats()).completed == 180
    assert most == 4


async def test_a_partition_that_is_alone_with_work_has_all_slots() -> None:
    _, app = shop(concurrency=6)
    all_there = asyncio.Barrier(6)

    @app.task(queue="in-b")
    async def meet() -> None:
        await all_there.wait()

    async with app, app.worker(queues=QUEUES):
        jobs = await app.enqueue_many([meet.call() for _ in range(6)])
        for job in jobs:
            await job.result(timeout=10)


async def test_slots_are_shared_fairly_by_the_partitions_that_have_work() -> None:
    _, app = shop(concurrency=6)
    ended: list[str] = []

    @app.task
    async def work(queue: str) -> None:
        await asyncio.sleep(0.005)
        ended.append(queue)

    async with app:
        # One has ten times as much to do, and is first.
        await app.enqueue_many([work.using(queue="in-a").call("in-a") for _ in range(2_000)])
        await app.enqueue_many(
            [work.using(queue=queue).call(queue) for queue in QUEUES[1:] for _ in range(200)]
        )
        await app.worker(queues=QUEUES).run(until_idle=True)
    # Partitions are joined one after the other, and it takes a round trip until the pace is known.
    since = max(ended.index(queue) for queue in QUEUES) + 30
    shares = Counter(ended[since : since + 300])
    assert all(shares[queue] >= 75 for queue in QUEUES), shares


async def test_a_partition_whose_work_comes_later_gets_its_share_of_slow_jobs() -> None:
    _, app = shop(concurrency=4)
    begun: list[str] = []
    go_on: asyncio.Queue[None] = asyncio.Queue()

    @app.task
    async def work(queue: str) -> None:
        begun.append(queue)
        await go_on.get()

    async with app, app.worker(queues=QUEUES) as worker:
        await app.enqueue_many([work.using(queue="in-a").call("in-a") for _ in range(40)])
        await until(lambda: len(begun) == 4)
        await app.enqueue_many([work.using(queue="in-b").call("in-b") for _ in range(40)])
        for _ in range(30):
            seen = len(begun)
            go_on.put_nowait(None)
            await until(partial(_is_longer, begun, seen))
        assert begun[4:].count("in-b") >= 10, begun
        worker.stop(0)


@pytest.mark.parametrize("way", ["fail", "hang"])
async def test_a_partition_that_is_away_holds_up_nobody_and_is_served_when_it_is_back(way: str) -> None:
    switches, app = shop(concurrency=4, lease_seconds=3, enqueue_timeout_seconds=0.5)

    @app.task
    async def add(number: int) -> int:
        return number + 1

    async with app, app.worker(queues=QUEUES):
        for queue in QUEUES:
            await (await add.using(queue=queue).enqueue(1)).result(timeout=10)
        late = await app.enqueue_many([add.using(queue="in-b", delay=0.2).call(1) for _ in range(20)])
        getattr(switches["b"], way)()
        began = time.monotonic()
        for number in range(300):
            job = await add.using(queue=QUEUES[number % 2 * 2]).enqueue(number)
            if number % 50 == 0:
                assert await job.result(timeout=5) == number + 1
        assert time.monotonic() - began < 10
        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await add.using(queue="in-b").enqueue(1)
        switches["b"].come_back()
        assert [await job.result(timeout=20) for job in late] == [2] * 20
        await until_idle(app)
        assert (await app.stats()).by_state[State.SUCCESS] >= 323
        for job in late:
            assert [each.outcome for each in await app.history(job.id)].count(Ending.SUCCESS) == 1


async def test_a_worker_starts_though_a_partition_is_away_and_joins_it_later() -> None:
    switches, app = shop()
    joined: list[str] = []

    def listen(notice: Notice) -> None:
        if notice.kind == "partition_worker_started":
            joined.append(notice.facts["partition"])

    app.notices.listen(listen)

    @app.schedule(every(hours=1), name="hourly")
    @app.task(queue="in-c")
    async def add(number: int = 1) -> int:
        return number + 1

    switches["c"].fail()
    async with app, app.worker(queues=QUEUES):
        assert await (await add.using(queue="in-a").enqueue(1)).result(timeout=10) == 2
        assert sorted(joined) == ["a", "b"]
        switches["c"].come_back()
        await until(lambda: "c" in joined)
        assert await (await add.enqueue(1)).result(timeout=10) == 2
        await until_stored(app, "hourly")


async def test_what_a_job_enqueues_with_its_success_is_stored_with_it() -> None:
    _, app = shop()
    children: list[str] = []

    @app.task(queue="in-c")
    async def child() -> None:
        """It has another queue than its parent."""

    @app.task(queue="in-a")
    async def parent(ctx: Context) -> None:
        children.append(ctx.enqueue(child.call()))

    async with app:
        job = await parent.enqueue()
        await app.worker(queues=QUEUES).run(until_idle=True)
        assert await app.partitions.of_job(job.id) == "a"
        assert await app.partitions.of_job(children[0]) == "a"
        done = await app.get(children[0])
        assert done is not None
        assert done.state is State.SUCCESS


async def test_schedules_fire_in_the_partition_of_their_queue_once_for_each_due_time() -> None:
    _, app = shop()
    fired: list[str] = []

    @app.task
    async def tick(name: str) -> None:
        fired.append(name)

    async with app:
        for name in NAMES:
            await app.schedules.put(name, every(seconds=1), tick.using(queue=f"in-{name}").call(name))
        assert [each.name for each in await app.schedules.list()] == list(NAMES)
        async with app.worker(queues=QUEUES):
            await until(lambda: len(set(fired)) == 3)
        for name in NAMES:
            info = await app.schedules.get(name)
            assert info is not None
            assert info.job is not None
            assert await app.partitions.of_job(info.job) == name


async def test_events_of_every_partition_are_told_to_their_group_once() -> None:
    _, app = shop()
    told: list[str] = []

    @app.on("orders", group="billing")
    async def bill(event: Event) -> None:
        told.append(event.data)

    @app.on("stock", group="billing")
    async def count(event: Event) -> None:
        told.append(event.data)

    @app.task
    async def sell(ctx: Context, what: str) -> None:
        ctx.emit(Event(topic="orders", type="sold", data=what, aggregate=what))

    async with app, app.worker(queues=QUEUES):
        await app.emit(Event(topic="stock", type="counted", data="alone"))
        for queue in QUEUES:
            await sell.using(queue=queue).enqueue(queue)
        await until(lambda: len(told) == 4)
        groups = await app.events.groups()
        assert {each.partition for each in groups if each.topic == "orders"} == set(NAMES)
        assert len(await app.events.list()) == len(await app.events.newest()) == 4
    assert sorted(told) == ["alone", *QUEUES]


async def test_enqueue_many_says_which_jobs_are_stored_when_a_partition_is_away() -> None:
    switches, app = shop(batch=10)

    @app.task
    async def work(number: int) -> None: ...

    async with app:
        calls = [work.using(queue=QUEUES[number % 3]).call(number) for number in range(60)]
        switches["b"].fail()
        with pytest.raises(PartlyStored, match="20 of 30 are stored") as raised:
            await app.enqueue_many(calls)
        stored = [await app.get(job_id) for job_id in raised.value.stored]
        assert {job.queue for job in stored if job is not None} == {"in-a", "in-c"}
        switches["b"].come_back()
        assert (await app.stats()).queued == 20


async def test_an_enqueue_for_a_partition_that_is_there_never_waits_for_one_that_hangs() -> None:
    switches, app = shop(enqueue_timeout_seconds=1)

    @app.task
    async def work() -> None: ...

    async with app:
        await work.using(queue="in-b").enqueue()
        switches["b"].hang()
        hanging = asyncio.ensure_future(work.using(queue="in-b").enqueue())
        began = time.monotonic()
        await asyncio.gather(*(work.using(queue="in-a").enqueue() for _ in range(50)))
        assert time.monotonic() - began < 0.9
        with pytest.raises(OutcomeUnknown, match="enqueue_timeout_seconds"):
            await hanging
        switches["b"].come_back()

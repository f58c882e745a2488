"""Partitions are added and removed by draining: nothing is moved, nothing is lost, nothing is run twice."""

from collections import Counter

from holdfast import Fixed, Holdfast, State, every
from holdfast.model.partition import Layout, layout
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.partitioned import PartitionedStore
from tests.partitioned.support import application

QUEUES = [f"queue-{number}" for number in range(30)]


class Shop:
    """One application after the other on the same stores, each with another layout."""

    def __init__(self, *names: str) -> None:
        self.stores: dict[str, Store] = {name: MemoryStore() for name in names}
        self.ran: Counter[int] = Counter()
        self.fails = True

    def layout(self, *names: str, draining: tuple[str, ...] = (), **queues: str) -> Layout:
        urls = {name: f"memory://{name}" for name in names}
        return layout(urls, draining=draining, queues=tuple(queues.items()))

    def open(self, found: Layout) -> Holdfast:
        stores = {each.name: self.stores[each.name] for each in found.partitions}
        app = application(PartitionedStore(found, stores))

        @app.task(retry=Fixed(max_retries=3, wait=0))
        async def work(number: int) -> None:
            if self.fails:
                raise ValueError("not yet")
            self.ran[number] += 1

        return app


async def live(app: Holdfast) -> dict[str, int]:
    return {info.name: info.live for info in await app.partitions.list()}


async def test_a_draining_partition_serves_what_it_has_and_gets_nothing_new() -> None:
    shop = Shop("a", "b", "c")
    async with shop.open(shop.layout("a", "b", "c")) as app:
        await app.enqueue_many(
            [app.tasks["work"].using(queue=queue).call(n) for n, queue in enumerate(QUEUES)]
        )
        before = await live(app)
        assert all(before.values()), before
    async with shop.open(shop.layout("a", "b", "c", draining=("b",))) as app:
        calls = [app.tasks["work"].using(queue=queue).call(n) for n, queue in enumerate(QUEUES, start=100)]
        await app.enqueue_many(calls)
        after = await live(app)
        assert (after["b"], sum(after.values())) == (before["b"], 60)
        # They fail once, and are tried again where they are.
        worker = app.worker(queues=QUEUES)
        app.notices.listen(lambda notice: setattr(shop, "fails", shop.fails and notice.kind != "settled"))
        assert await worker.run(until_idle=True) == 0
        assert await live(app) == {"a": 0, "b": 0, "c": 0}
        found = {info.name: info.finished for info in await app.partitions.list()}
        assert found["b"] == before["b"]
        assert (await app.stats()).completed == 60
    assert set(shop.ran.values()) == {1}
    assert len(shop.ran) == 60


async def test_one_that_is_drained_can_be_left_out() -> None:
    shop = Shop("a", "b")
    shop.fails = False
    async with shop.open(shop.layout("a", "b", draining=("b",), kept="b")) as app:
        job = await app.tasks["work"].using(queue="kept").enqueue(1)
        assert await app.partitions.of_job(job.id) == "b"
        await app.worker(queues=["kept"]).run(until_idle=True)
    async with shop.open(shop.layout("a")) as app:
        again = await app.tasks["work"].using(queue="kept").enqueue(2)
        assert await app.partitions.of_job(again.id) == "a"
        assert await app.get(job.id) is None, "its history went with it"
        await app.worker(queues=["kept"]).run(until_idle=True)
    assert shop.ran == {1: 1, 2: 1}


async def test_a_new_partition_is_served_before_anything_is_placed_in_it() -> None:
    shop = Shop("a", "b", "c")
    shop.fails = False
    old, known = shop.layout("a", "b"), shop.layout("a", "b", "c", draining=("c",))
    grown = shop.layout("a", "b", "c")
    moved = next(queue for queue in QUEUES if grown.of_queue(queue) == "c")
    assert known.of_queue(moved) == old.of_queue(moved) != "c"
    async with (
        shop.open(old) as producer,
        shop.open(known) as worker_app,
        worker_app.worker(queues=[moved]),
        shop.open(grown) as newer,
    ):
        first = await producer.tasks["work"].using(queue=moved).enqueue(1)
        await first.result(timeout=10)
        second = await newer.tasks["work"].using(queue=moved).enqueue(2)
        assert await newer.partitions.of_job(second.id) == "c"
        await second.result(timeout=10)
        # A repeat by id finds the first, though its queue goes elsewhere now.
        again = await newer.tasks["work"].using(queue=moved, id=first.id).enqueue(1)
        assert (again.id, again.state) == (first.id, State.SUCCESS)
    assert shop.ran == {1: 1, 2: 1}


async def test_a_schedule_stays_where_it_was_put_until_it_is_put_anew() -> None:
    shop = Shop("a", "b")
    async with shop.open(shop.layout("a", "b", mail="b")) as app:
        await app.schedules.put("hourly", every(hours=1), app.tasks["work"].using(queue="mail").call(1))
    async with shop.open(shop.layout("a", "b", draining=("b",))) as app:
        call = app.tasks["work"].using(queue="mail").call(1)
        await app.schedules.put("hourly", every(hours=2), call)
        assert [info.partition for info in await app.schedules.list()] == ["b"]
        fired = await app.schedules.run("hourly")
        assert await app.partitions.of_job(fired) == "b"
        await app.schedules.remove("hourly")
        await app.schedules.put("hourly", every(hours=2), call)
        assert [info.partition for info in await app.schedules.list()] == ["a"]

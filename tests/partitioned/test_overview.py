"""What is told of workers, queues and locks that are in several partitions."""

from holdfast.engine.lock_list import held_locks
from holdfast.model.records import LockWish
from holdfast.model.report import QueueReport, WorkerReport, decode_report, encode_report
from holdfast.model.timing import SECOND
from holdfast.stores.partitioned import PartitionedStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import LONG, new_job, worker_record
from tests.partitioned.support import NAMES, in_memory


def report(claimed: int) -> bytes:
    return encode_report(WorkerReport(slots=4, busy=1, by_queue={"q": QueueReport(claimed=claimed)}))


async def test_the_reports_of_one_worker_are_told_as_one() -> None:
    store = in_memory(ManualClock())
    session = await store.connect("n")
    await session.fleet.register(worker_record("ann"), LONG)
    assert (await session.fleet.workers())[0].report is None
    await session.parts["a"].fleet.beat("ann", LONG, report(2))
    await session.parts["b"].fleet.beat("ann", LONG, report(3))
    [worker] = await session.fleet.workers()
    told = decode_report(worker.report or b"", worker.reported)
    assert told is not None
    assert (told.slots, told.busy, told.total.claimed) == (4, 2, 5)
    assert await session.fleet.beat("ann", LONG, b"opaque")
    assert (await session.fleet.workers())[0].report == b"opaque", "what all have is told as it is"


async def test_a_queue_waits_as_long_as_in_the_partition_where_it_waits_longest() -> None:
    clock = ManualClock()
    session = await in_memory(clock).connect("n")
    for name, pause in (("a", 3), ("b", 1)):
        await session.parts[name].jobs.add([new_job(queue="q")])
        clock.advance(pause)
    await session.parts["c"].fleet.pause("q")
    since = clock()
    clock.advance(1)
    await session.fleet.pause("q")
    [queue] = await session.fleet.queues()
    assert (queue.paused, queue.paused_since, queue.oldest) == (True, since, 5 * SECOND)


async def hold(store: PartitionedStore, partition: str, *names: str) -> None:
    locks = (await store.parts[partition].connect("n")).locks
    for name in names:
        assert (await locks.acquire(LockWish(name=name, owner=f"{partition}/1", ttl=LONG))).token is not None


async def test_locks_of_all_partitions_are_listed_and_no_page_parts_one_name() -> None:
    store = in_memory(ManualClock())
    for name in NAMES:
        await hold(store, name, "holdfast.leader")
    await hold(store, "a", "first", "last")
    session = await store.connect("n")
    found = await held_locks(session, 10, None)
    assert [(lock.name, lock.partition, lock.owner) for lock in found] == [
        ("first", "a", "a"),
        *(("holdfast.leader", name, name) for name in NAMES),
        ("last", "a", "a"),
    ]
    pages: list[list[str]] = []
    after = None
    while page := await held_locks(session, 2, after):
        pages.append([lock.name for lock in page])
        after = page[-1].name
    assert pages == [["first"], ["holdfast.leader"] * 3, ["last"]]
    assert [lock.name for lock in await session.locks.held("", 10)] == ["first", "holdfast.leader", "last"]

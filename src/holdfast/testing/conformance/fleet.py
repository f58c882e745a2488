"""Promises about workers and queues."""

from msgspec.structs import replace

from holdfast.model.lifecycle import State
from holdfast.model.records import QueueRecord
from holdfast.testing.conformance.case import (
    LEASE,
    LONG,
    QUEUE,
    Case,
    Promises,
    ended,
    promise,
    wanted,
    worker_record,
)


async def _pauses(case: Case) -> dict[str, bool]:
    """The queues that are known, in their order, and whether each is paused."""
    return {queue.name: queue.paused for queue in await case.fleet.queues()}


async def _queue(case: Case) -> QueueRecord:
    [queue] = await case.fleet.queues()
    return queue


class FleetPromises(Promises):
    """Who is there, and which queues are served."""

    @promise
    async def test_a_registered_worker_is_told_as_it_said(self, case: Case) -> None:
        told = worker_record("ann", queues=("a", "b"), tasks=("x", "y"), concurrency=7, version="1.2")
        await case.fleet.register(told, LONG)
        [known] = await case.fleet.workers()
        assert replace(known, started=0, seen=0) == told
        assert known.live
        assert known.started == known.seen > 0

    @promise
    async def test_registering_again_replaces_what_was_said_but_not_the_start(self, case: Case) -> None:
        await case.fleet.register(worker_record("ann"), LONG)
        [first] = await case.fleet.workers()
        case.advance(1)
        await case.fleet.register(worker_record("ann", queues=("new",), concurrency=3), LONG)
        [again] = await case.fleet.workers()
        assert (again.queues, again.concurrency) == (("new",), 3)
        assert again.started == first.started
        assert again.seen > first.seen

    @promise
    async def test_a_worker_that_does_not_beat_is_told_as_dead(self, case: Case) -> None:
        await case.fleet.register(worker_record("ann"), LEASE)
        await case.fleet.register(worker_record("bob"), LONG)
        case.advance(2.5)
        assert [(worker.id, worker.live) for worker in await case.fleet.workers()] == [
            ("ann", False),
            ("bob", True),
        ]

    @promise
    async def test_a_beat_keeps_a_worker_live_and_brings_an_expired_one_back(self, case: Case) -> None:
        await case.fleet.register(worker_record("ann"), LEASE)
        [first] = await case.fleet.workers()
        for pause in (1.2, 1.2, 3):
            case.advance(pause)
            assert await case.fleet.beat("ann", LEASE)
            [worker] = await case.fleet.workers()
            assert worker.live
            assert worker.seen > first.seen

    @promise
    async def test_the_last_report_of_a_worker_is_told_with_its_instant(self, case: Case) -> None:
        await case.fleet.register(worker_record("ann", report=b"of nobody", reported=5), LONG)
        await case.fleet.register(worker_record("bob"), LONG)
        [silent, _] = await case.fleet.workers()
        assert (silent.report, silent.reported) == (None, 0)
        case.advance(1)
        said = bytes(range(256)) * 40
        assert await case.fleet.beat("ann", LONG, b"first")
        assert await case.fleet.beat("ann", LONG, said)
        [told, other] = await case.fleet.workers()
        assert told.report == said
        assert told.reported == told.seen > silent.seen
        assert other.report is None
        case.advance(1)
        assert await case.fleet.beat("ann", LONG)
        await case.fleet.register(worker_record("ann", concurrency=3), LONG)
        [again, _] = await case.fleet.workers()
        assert (again.report, again.reported, again.concurrency) == (said, told.reported, 3)
        assert again.seen > told.seen
        assert await case.fleet.beat("ann", LONG, b"")
        [empty, _] = await case.fleet.workers()
        assert empty.report == b""
        await case.fleet.retire("ann")
        await case.register("ann")
        [anew, _] = await case.fleet.workers()
        assert (anew.report, anew.reported) == (None, 0)

    @promise
    async def test_a_report_of_an_unknown_worker_is_kept_nowhere(self, case: Case) -> None:
        assert not await case.fleet.beat("ann", LONG, b"busy")
        await case.register("ann")
        [worker] = await case.fleet.workers()
        assert worker.report is None

    @promise
    async def test_a_beat_of_an_unknown_worker_is_false_and_makes_nobody_known(self, case: Case) -> None:
        assert not await case.fleet.beat("ann", LONG)
        assert await case.fleet.workers() == []

    @promise
    async def test_a_retired_worker_is_forgotten_and_its_leases_stay(self, case: Case) -> None:
        job = await case.add_and_claim("ann")
        await case.fleet.retire("ann")
        assert await case.fleet.workers() == []
        assert not await case.fleet.beat("ann", LONG)
        assert await case.reload(job) == job
        assert await case.claim("bob") == []

    @promise
    async def test_workers_dead_for_a_day_are_forgotten(self, case: Case) -> None:
        await case.fleet.register(worker_record("ann"), LEASE)
        await case.fleet.register(worker_record("bob"), LEASE)
        case.advance(86_300)
        assert await case.fleet.beat("bob", LEASE)
        assert [worker.id for worker in await case.fleet.workers()] == ["ann", "bob"]
        case.advance(200)
        assert [worker.id for worker in await case.fleet.workers()] == ["bob"]
        assert not await case.fleet.beat("ann", LEASE)

    @promise
    async def test_queues_with_a_live_job_or_a_pause_in_their_past_are_listed(self, case: Case) -> None:
        assert await case.fleet.queues() == []
        await case.add(queue="b")
        await case.add(queue="c")
        await case.fleet.pause("a")
        await case.fleet.resume("never-paused")
        assert await _pauses(case) == {"a": True, "b": False, "c": False}
        await case.fleet.resume("a")
        await case.register("ann")
        [held] = (await case.tick("ann", want=wanted("b"))).claimed
        assert [queue.name for queue in await case.fleet.queues()] == ["a", "b", "c"]
        await case.move("ann", ended(held))
        assert await _pauses(case) == {"a": False, "c": False}

    @promise
    async def test_a_queue_is_paused_since_the_first_pause_that_lasts(self, case: Case) -> None:
        before = (await case.add()).created
        case.advance(1)
        await case.fleet.pause(QUEUE)
        since = (await _queue(case)).paused_since
        assert since is not None
        assert before < since
        case.advance(1)
        await case.fleet.pause(QUEUE)
        assert await _queue(case) == QueueRecord(
            name=QUEUE, paused=True, paused_since=since, oldest=(await _queue(case)).oldest
        )
        await case.fleet.resume(QUEUE)
        assert (await _queue(case)).paused_since is None
        case.advance(1)
        await case.fleet.pause(QUEUE)
        again = (await _queue(case)).paused_since
        assert again is not None
        assert again > since

    @promise
    async def test_a_pause_does_not_touch_what_is_held(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.fleet.pause(QUEUE)
        await case.move("ann", ended(job))
        assert (await case.reload(job)).state is State.SUCCESS

    @promise
    async def test_the_facts_name_engine_version_and_durability(self, case: Case) -> None:
        facts = await case.store.facts()
        assert {"engine", "version", "durability"} <= facts.keys()
        assert all(facts.values())

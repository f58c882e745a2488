"""What a worker tells of itself, and what it has counted."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from holdfast.engine import telling
from holdfast.engine.account import Account
from holdfast.model.lifecycle import Ending
from holdfast.model.outcome import Stop
from holdfast.model.records import WorkerRecord, as_added
from holdfast.model.report import BOUNDS, MOST_QUEUES, OTHER, WorkerReport, decode_report
from holdfast.model.retry import Fixed, Never
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import new_job
from tests.engine.rig import PATIENCE, Gate, Rig


async def told(rig: Rig, fits: Callable[[WorkerRecord, WorkerReport], bool]) -> WorkerReport:
    """The first report that fits, as the store has it."""
    fleet = (await rig.memory.connect("default")).fleet
    while True:
        [worker] = await fleet.workers()
        report = None if worker.report is None else decode_report(worker.report, worker.reported)
        if report is not None and fits(worker, report):
            return report
        await asyncio.sleep(0.005)


async def test_a_worker_tells_how_it_stands_and_what_became_of_its_jobs() -> None:
    rig, gate = Rig(concurrency=2), Gate()

    async def fail() -> None:
        raise ValueError

    wait = rig.task(gate.pass_async, name="wait", queue="slow")
    once = rig.task(fail, name="once", retry=Never())
    again = rig.task(fail, name="again", retry=Fixed(max_retries=1, wait=3600))
    slow = await rig.add(wait)
    rig.clock.advance(7)
    worker = rig.worker(queues=("default", "slow"))
    assert worker.report() == WorkerReport(slots=2)
    async with rig.serving(worker):
        await gate.wait_entered()
        for task in (once, again):
            await rig.seen.wait("settled", job=await rig.add(task))
        report = worker.report()
        assert (report.slots, report.busy, report.stuck, report.waiting) == (2, 1, 0, 0)
        assert report.claiming
        assert report.oldest_run is not None
        assert 0 <= report.oldest_run < PATIENCE
        quick = report.by_queue["default"]
        assert (quick.claimed, quick.success, quick.retried, quick.failed) == (2, 0, 1, 1)
        assert report.by_queue["slow"].lateness.sum == pytest.approx(7)
        gate.open()
        await rig.seen.wait("settled", job=slow)
        assert worker.report().by_queue["slow"].success == 1
        assert worker.report().oldest_run is None
    assert not worker.report().claiming
    assert worker.report().total.claimed == 3
    await worker.run(until_idle=True)
    assert worker.report().total.claimed == 0, "another run is another worker"


async def test_a_slot_whose_code_does_not_end_is_told_as_stuck() -> None:
    rig, gate = Rig(concurrency=2), Gate()
    block = rig.task(gate.pass_blocking, name="block", timeout=0.05)
    async with rig.serving() as worker:
        await rig.add(block)
        await rig.seen.wait("stuck")
        assert (worker.report().busy, worker.report().stuck) == (1, 1)
        gate.open()


async def test_the_store_is_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(telling, "REPORT_SECONDS", 0.01)
    rig = Rig(concurrency=3)

    async def work() -> None:
        return None

    task = rig.task(work)
    async with asyncio.timeout(PATIENCE), rig.serving():
        job = await rig.add(task)
        await rig.seen.wait("settled", job=job)
        report = await told(rig, lambda _, report: report.total.success == 1)
        assert report.slots == 3
        rig.clock.advance(1)
        again = await told(rig, lambda worker, _: worker.reported == rig.clock())
        assert again.at > report.at


async def test_a_store_that_does_not_take_reports_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(telling, "REPORT_SECONDS", 0.001)
    rig = Rig()
    tries = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    class Refusing:
        async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
            loop.call_soon_threadsafe(tries.release)
            raise ConnectionError("away")

    telling_it = asyncio.create_task(
        telling.tell(Refusing(), "w", rig.settings, WorkerReport)  # type: ignore[arg-type]
    )
    async with asyncio.timeout(PATIENCE):
        for _ in range(3):
            await tries.acquire()
    telling_it.cancel()
    await asyncio.wait([telling_it])


def test_of_too_many_queues_the_rest_is_counted_together() -> None:
    account = Account()
    jobs = [as_added(new_job(queue=f"q{number}"), 0) for number in range(MOST_QUEUES + 5)]
    account.claimed(jobs)
    account.claimed(jobs[-2:])
    for job in jobs:
        account.ended(job.queue, Ending.SUCCESS)
    reports = account.reports()
    assert len(reports) == MOST_QUEUES + 1
    assert (reports["q0"].claimed, reports["q0"].success) == (1, 1)
    assert (reports[OTHER].claimed, reports[OTHER].success) == (7, 5)


def test_lateness_is_from_due_to_claim_by_the_clock_of_the_store() -> None:
    account = Account()
    late = partial(as_added, new_job(queue="q"))
    for seconds in (-5.0, 0.0, 0.001, 0.0011, 0.5, 3600.0, 3601.0):
        job = late(0)
        job.token = round(seconds * SECOND)
        account.claimed([job])
    lateness = account.reports()["q"].lateness
    expected = [0] * (len(BOUNDS) + 1)
    for place, count in ((0, 3), (1, 1), (7, 1), (16, 1), (17, 1)):
        expected[place] = count
    assert lateness.counts == tuple(expected)
    assert lateness.sum == pytest.approx(7201.5021)


async def test_one_who_is_stopping_claims_no_more() -> None:
    rig, gate = Rig(), Gate()
    wait = rig.task(gate.pass_async, name="wait")
    async with rig.serving() as worker:
        job = await rig.add(wait)
        await gate.wait_entered()
        worker.stop(5)
        assert not worker.report().claiming
        assert worker.report().busy == 1
        gate.open()
        await rig.seen.wait("settled", job=job)
    assert not rig.seen.of("lease_lost", why=Stop.LEASE_LOST)

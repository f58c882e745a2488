"""Long outages: the circuit opens, calls fail at once, one at a time tries, the first answer closes it."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from holdfast.model.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from holdfast.model.records import Extension, Query
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.stores.resilient import Breaker
from tests.resilient.rig import DOWN, LOST, Rig, Time, claim, job, worker


def fail(breaker: Breaker, time: Time, times: int, apart: float) -> None:
    for _ in range(times):
        time.now += apart
        breaker.failed(DOWN)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def breaker(time: Time) -> Breaker:
    return Breaker(clock=time.clock)


def test_it_opens_after_failures_in_a_row_that_last(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 4, apart=1.0)
    assert not breaker.is_open
    fail(breaker, time, 1, apart=1.0)
    assert breaker.is_open


def test_many_failures_at_one_moment_do_not_open_it(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 1000, apart=0.001)
    assert not breaker.is_open
    fail(breaker, time, 1, apart=1.5)
    assert breaker.is_open


def test_a_success_in_between_starts_the_count_anew(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 4, apart=1.0)
    breaker.succeeded()
    assert not breaker.is_failing
    fail(breaker, time, 4, apart=1.0)
    assert not breaker.is_open


def test_faults_far_apart_are_not_one_outage(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 20, apart=11.0)
    assert not breaker.is_open


def test_an_open_one_tells_since_when_and_when_it_tries_next(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 5, apart=1.0)
    with pytest.raises(StoreUnavailable) as raised:
        breaker.admit()
    assert "unreachable since 20" in str(raised.value)
    assert "(connection refused)" in str(raised.value)
    assert "the next try is in " in str(raised.value)


def test_it_lets_one_trial_through_after_the_pause(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 5, apart=1.0)
    time.now += 1.5
    breaker.admit()
    with pytest.raises(StoreUnavailable):
        breaker.admit()


def test_a_trial_that_fails_opens_it_for_another_pause(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 5, apart=1.0)
    time.now += 1.5
    breaker.admit()
    time.now += 10
    breaker.failed(DOWN)
    with pytest.raises(StoreUnavailable):
        breaker.admit()
    time.now += 1.5
    breaker.admit()


def test_a_trial_that_never_ends_keeps_nobody_from_the_next(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 5, apart=1.0)
    for _ in range(3):
        time.now += 1.5
        breaker.admit()


def test_pauses_between_trials_are_random_around_the_one_set(time: Time) -> None:
    pauses = set()
    for _ in range(30):
        breaker = Breaker(clock=time.clock, failures=1, outage_seconds=0, reset_seconds=10)
        breaker.failed(DOWN)
        began = time.now
        while breaker.is_open:
            time.now += 0.1
            try:
                breaker.admit()
            except StoreUnavailable:
                continue
            breaker.succeeded()
        pauses.add(round(time.now - began, 1))
    assert min(pauses) >= 5
    assert max(pauses) <= 15.1
    assert len(pauses) > 10


def test_a_late_answer_to_a_call_from_before_closes_it(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 5, apart=1.0)
    breaker.succeeded()
    assert not breaker.is_open
    breaker.admit()


def test_a_late_fault_of_a_call_from_before_does_not_put_off_the_trial(breaker: Breaker, time: Time) -> None:
    fail(breaker, time, 5, apart=1.0)
    time.now += 1.5
    breaker.failed(LOST)
    breaker.admit()


def test_opening_and_closing_are_one_line_each_and_hide_secrets(
    breaker: Breaker, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "holdfast.store"):
        for _ in range(10):
            breaker.failed(StoreUnavailable("postgresql://ann:hunter2@db/jobs: connection refused"))
            time.now += 1.0
        time.now += 1.5
        breaker.admit()
        breaker.failed(DOWN)
        time.now += 1.5
        breaker.admit()
        breaker.succeeded()
        breaker.succeeded()
    opened, closed = (each for each in caplog.records if each.levelno > logging.DEBUG)
    assert (opened.levelname, opened.message) == ("WARNING", "circuit opened")
    assert opened.__dict__["fields"] == {
        "failures": 5,
        "seconds": 4.0,
        "error": "postgresql://ann:***@db/jobs: connection refused",
    }
    assert closed.message == "circuit closed"
    assert closed.__dict__["fields"] == {"seconds": 13.0}


async def test_while_it_is_open_calls_fail_at_once_and_do_not_reach_the_store() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    before = len(rig.faults.calls)
    pauses = len(rig.time.pauses)
    for _ in range(100):
        with pytest.raises(StoreUnavailable, match="unreachable since"):
            await session.jobs.add([job("b")])
    with pytest.raises(StoreUnavailable, match="unreachable since"):
        await rig.open()
    assert len(rig.faults.calls) == before
    assert len(rig.time.pauses) == pauses


async def test_a_call_that_is_being_tried_again_when_it_opens_ends_there() -> None:
    rig = Rig(retry_seconds=60)
    session = await rig.open()
    rig.faults.down = DOWN
    began = rig.time.now
    with pytest.raises(StoreUnavailable, match="connection refused"):
        await session.jobs.get("a")
    assert rig.breaker.is_open
    assert 2.0 <= rig.time.now - began < 3.0


async def test_a_trial_that_fails_is_not_tried_again_by_the_same_call() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    before = len(rig.faults.calls)
    rig.time.now += 1.5
    with pytest.raises(StoreUnavailable, match="connection refused"):
        await session.jobs.get("a")
    assert len(rig.faults.calls) == before + 1


async def test_a_trial_whose_answer_is_lost_is_told_as_unknown() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    rig.time.now += 1.5
    rig.faults.down = None
    rig.faults.plan("add", after=LOST)
    with pytest.raises(OutcomeUnknown):
        await session.jobs.add([job("b")])
    assert rig.breaker.is_open


async def test_the_first_call_after_the_recovery_works_unaided_and_closes_it() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    rig.faults.down = None
    rig.time.now += 1.5
    [added] = await session.jobs.add([job("b")])
    assert added.created
    assert not rig.breaker.is_open
    assert not rig.breaker.is_failing


async def test_a_trial_that_the_store_answers_with_an_error_closes_it() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    rig.faults.down = None
    rig.faults.plan("add", before=StoreFull("no space left"))
    rig.time.now += 1.5
    with pytest.raises(StoreFull):
        await session.jobs.add([job("b")])
    assert not rig.breaker.is_open


@pytest.mark.parametrize("name", ["extend", "beat", "tick"])
async def test_what_keeps_a_lease_waits_for_its_trial_instead_of_failing(name: str) -> None:
    rig = Rig()
    session = await rig.open()
    await session.fleet.register(worker(), 60 * SECOND)
    await rig.open_circuit(session)
    rig.faults.down = None
    began = rig.time.now
    await keep(session, name)
    assert rig.time.now - began < 2.0
    assert not rig.breaker.is_open


@pytest.mark.parametrize("name", ["extend", "beat", "tick"])
async def test_what_keeps_a_lease_gives_up_within_its_time_and_tries_about_once_a_second(name: str) -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    began = rig.time.now
    with pytest.raises(StoreUnavailable):
        await keep(session, name)
    assert rig.time.now - began < 3.0
    assert 1 <= rig.faults.count(name) <= 6


async def test_a_trial_that_was_cancelled_leaves_room_for_the_next() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    rig.faults.down = None
    plan = rig.faults.plan("get", hangs=True)
    rig.time.now += 1.5
    trying = asyncio.ensure_future(session.jobs.get("a"))
    await asyncio.to_thread(plan.reached.wait)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    assert rig.breaker.is_open
    rig.time.now += 1.5
    assert await session.jobs.get("a") is None
    assert not rig.breaker.is_open


async def test_an_answer_to_a_call_from_before_the_first_fault_ends_the_count() -> None:
    rig = Rig(retry_seconds=0)
    session = await rig.open()
    gate = asyncio.Event()
    slow = rig.faults.plan("find", gate=gate)
    finding = asyncio.ensure_future(session.jobs.find(Query()))
    await asyncio.to_thread(slow.reached.wait)
    rig.faults.plan("get", before=DOWN)
    with pytest.raises(StoreUnavailable):
        await session.jobs.get("a")
    was_failing = rig.breaker.is_failing
    gate.set()
    await finding
    assert (was_failing, rig.breaker.is_failing) == (True, False)


def test_loops_on_two_threads_share_one_circuit() -> None:
    rig = Rig()

    async def break_it() -> None:
        session = await rig.open()
        await rig.open_circuit(session)

    async def be_refused_then_mend_it() -> None:
        rig.faults.down = None
        with pytest.raises(StoreUnavailable, match="unreachable since"):
            await rig.open()
        rig.time.now += 1.5
        session = await rig.open()
        assert await session.jobs.get("a") is None

    async def go_on() -> None:
        assert not rig.breaker.is_failing
        await rig.open()

    for part in (break_it, be_refused_then_mend_it, go_on):
        in_a_thread(partial(asyncio.run, part()))


def test_of_many_threads_one_at_a_time_gets_the_trial() -> None:
    time = Time()
    breaker = Breaker(clock=time.clock, failures=1, outage_seconds=0)
    breaker.failed(DOWN)
    admitted: list[int] = []
    barrier = threading.Barrier(8)

    def ask(number: int) -> None:
        barrier.wait()
        for _ in range(200):
            try:
                breaker.admit()
            except StoreUnavailable:
                continue
            admitted.append(number)

    time.now += 1.5
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 1


def in_a_thread(function: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


async def keep(session: Session, name: str) -> None:
    if name == "extend":
        await session.jobs.extend("ann", [Extension(job="a", token=1, lease=SECOND)])
    elif name == "beat":
        await session.fleet.beat("ann", 60 * SECOND)
    else:
        await session.jobs.tick(claim())

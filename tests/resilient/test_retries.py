"""What is sent again after which fault, how often, and for how long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.model.errors import (
    ConfigurationError,
    KeyConflict,
    OutcomeUnknown,
    SchemaMismatch,
    StoreFull,
    StoreUnavailable,
)
from holdfast.model.lifecycle import SUCCEEDED, Ending
from holdfast.model.records import Edit, Extension, Move, Query, Tick, Verdict
from holdfast.model.timing import SECOND
from holdfast.store import FleetStore, JobStore, Session
from holdfast.stores.resilient.jobs import ResilientJobs
from tests.resilient.rig import DOWN, LOST, Rig, claim, job, worker

EXTENSION = Extension(job="a", token=1, lease=SECOND)

OPERATIONS: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "add": lambda session: session.jobs.add([job("b")]),
    "tick": lambda session: session.jobs.tick(claim()),
    "extend": lambda session: session.jobs.extend("ann", [EXTENSION]),
    "expired": lambda session: session.jobs.expired(10),
    "edit": lambda session: session.jobs.edit("a", 1, Edit(priority=5)),
    "delete": lambda session: session.jobs.delete("a"),
    "get": lambda session: session.jobs.get("a"),
    "states": lambda session: session.jobs.states(["a"]),
    "find": lambda session: session.jobs.find(Query()),
    "count": lambda session: session.jobs.count(),
    "history": lambda session: session.jobs.history("a"),
    "prune": lambda session: session.jobs.prune(0, 10),
    "register": lambda session: session.fleet.register(worker("bob"), SECOND),
    "beat": lambda session: session.fleet.beat("ann", SECOND),
    "retire": lambda session: session.fleet.retire("ann"),
    "workers": lambda session: session.fleet.workers(),
    "pause": lambda session: session.fleet.pause("mail"),
    "resume": lambda session: session.fleet.resume("mail"),
    "queues": lambda session: session.fleet.queues(),
}


async def prepared(rig: Rig) -> Session:
    session = await rig.open()
    await session.jobs.add([job("a")])
    await session.fleet.register(worker("ann"), 600 * SECOND)
    return session


def noting(sent: list[bool]) -> Callable[[Tick], bool]:
    """Notes of each tick whether it says that it is a repeat."""

    def when(tick: Tick) -> bool:
        sent.append(tick.repeat)
        return True

    return when


def test_every_operation_of_the_seam_is_listed_here() -> None:
    seam = {name for part in (JobStore, FleetStore) for name in vars(part) if not name.startswith("_")}
    assert seam == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_that_was_not_done_is_sent_again(name: str) -> None:
    rig = Rig()
    session = await prepared(rig)
    before = rig.faults.count(name)
    rig.faults.plan(name, before=DOWN, times=3)
    await OPERATIONS[name](session)
    assert rig.faults.count(name) - before == 4
    assert not rig.breaker.is_failing


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"edit"}))
async def test_an_operation_whose_answer_was_lost_is_sent_again(name: str) -> None:
    rig = Rig()
    session = await prepared(rig)
    before = rig.faults.count(name)
    rig.faults.plan(name, after=LOST)
    await OPERATIONS[name](session)
    assert rig.faults.count(name) - before == 2


async def test_an_edit_whose_answer_was_lost_is_passed_on_and_not_sent_again() -> None:
    rig = Rig()
    session = await prepared(rig)
    rig.faults.plan("edit", before=DOWN)
    rig.faults.plan("edit", after=LOST)
    with pytest.raises(OutcomeUnknown) as raised:
        await session.jobs.edit("a", 1, Edit(priority=5))
    assert raised.value is LOST
    assert rig.faults.count("edit") == 2
    stored = await session.jobs.get("a")
    assert stored is not None
    assert (stored.version, stored.priority) == (2, 5)


async def test_a_tick_whose_answer_was_lost_is_repeated_as_such_and_claims_once() -> None:
    rig = Rig()
    session = await prepared(rig)
    await session.jobs.add([job("b")])
    sent: list[bool] = []
    rig.faults.plan("tick", after=LOST, when=noting(sent))
    rig.faults.plan("tick", before=DOWN, when=noting(sent))
    tick = claim()
    ticked = await session.jobs.tick(tick)
    assert sent == [False, True]
    assert not tick.repeat
    assert len(ticked.claimed) == 1
    held = [each for each in await session.jobs.states(["a", "b"]) if each is not None and each.worker]
    assert [each.id for each in held] == [ticked.claimed[0].id]


async def test_a_tick_that_was_not_done_is_sent_unchanged() -> None:
    rig = Rig()
    session = await prepared(rig)
    sent: list[bool] = []
    rig.faults.plan("tick", before=DOWN, times=2, when=noting(sent))
    await session.jobs.tick(claim())
    assert sent == [False, False]


async def test_a_completion_whose_answer_was_lost_is_accepted_and_recorded_once() -> None:
    rig = Rig()
    session = await prepared(rig)
    [claimed] = (await session.jobs.tick(claim())).claimed
    rig.faults.plan("tick", after=LOST, times=3)
    move = Move(job="a", token=claimed.token, path=SUCCEEDED, outcome=Ending.SUCCESS)
    ticked = await session.jobs.tick(claim(2, moves=[move]))
    assert ticked.verdicts == [Verdict.ACCEPTED]
    assert len(await session.jobs.history("a")) == 1


async def test_a_job_whose_answer_was_lost_is_stored_once() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("add", after=LOST)
    [added] = await session.jobs.add([job("b")])
    assert added.conflict is None
    assert [each.id for each in await session.jobs.find(Query())] == ["b"]


async def test_once_an_outcome_was_unknown_later_refusals_do_not_make_it_known() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("add", after=LOST)
    rig.faults.plan("add", before=DOWN, times=float("inf"))
    with pytest.raises(OutcomeUnknown, match=r"the answer was lost; sending it again failed: connection"):
        await session.jobs.add([job("b")])


async def test_a_full_store_after_an_unknown_outcome_leaves_it_unknown() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("add", after=LOST)
    rig.faults.plan("add", before=StoreFull("no space left"))
    with pytest.raises(OutcomeUnknown, match="no space left"):
        await session.jobs.add([job("b")])
    assert rig.faults.count("add") == 2


@pytest.mark.parametrize(
    "error",
    [
        StoreFull("no space left"),
        SchemaMismatch("too new"),
        ConfigurationError("no such user"),
        KeyConflict("held"),
        ValueError("a bug"),
    ],
)
async def test_what_is_not_transient_is_passed_on_at_once(error: Exception) -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("add", before=error)
    with pytest.raises(type(error)) as raised:
        await session.jobs.add([job("b")])
    assert raised.value is error
    assert rig.faults.count("add") == 1
    assert rig.time.pauses == []
    assert not rig.breaker.is_failing


async def test_connecting_is_tried_again() -> None:
    rig = Rig()
    rig.faults.plan("connect", before=DOWN, times=2)
    session = await rig.open()
    assert isinstance(session.jobs, ResilientJobs)
    assert rig.faults.count("connect") == 3


async def test_a_dead_store_is_told_within_the_time_and_not_asked_all_the_time() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.down = DOWN
    began = rig.time.now
    with pytest.raises(StoreUnavailable, match="connection refused"):
        await session.jobs.add([job("b")])
    assert rig.time.now - began < 3.0
    assert 5 <= rig.faults.count("add") <= 60
    assert rig.time.pauses[0] <= 0.01
    assert max(rig.time.pauses) <= 0.5


async def test_a_dead_store_is_told_within_the_time_that_was_set() -> None:
    rig = Rig(retry_seconds=0.2)
    session = await rig.open()
    rig.faults.down = DOWN
    began = rig.time.now
    with pytest.raises(StoreUnavailable):
        await session.jobs.add([job("b")])
    assert rig.time.now - began < 0.2


async def test_the_time_is_counted_from_the_first_fault_so_that_a_slow_one_gets_its_second_try() -> None:
    rig = Rig()
    session = await rig.open()

    def hang(_: object) -> bool:
        rig.time.now += 30
        return True

    rig.faults.plan("get", before=LOST, when=hang)
    assert await session.jobs.get("a") is None
    assert rig.faults.count("get") == 2


async def test_pauses_are_random_within_a_doubling_window() -> None:
    pauses = []
    for _ in range(20):
        rig = Rig()
        session = await rig.open()
        rig.faults.plan("get", before=DOWN, times=4)
        await session.jobs.get("a")
        pauses.append(rig.time.pauses)
    for nth, window in enumerate([0.01, 0.02, 0.04, 0.08]):
        nths = [each[nth] for each in pauses]
        assert max(nths) <= window
        assert len(set(nths)) > 10


async def test_a_cancellation_during_a_try_passes_through_at_once() -> None:
    rig = Rig()
    session = await rig.open()
    plan = rig.faults.plan("add", hangs=True)
    adding = asyncio.ensure_future(session.jobs.add([job("b")]))
    await asyncio.to_thread(plan.reached.wait)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert rig.faults.count("add") == 1
    assert not rig.breaker.is_failing


async def test_a_cancellation_during_a_second_try_passes_through_at_once() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("add", before=DOWN)
    plan = rig.faults.plan("add", hangs=True)
    adding = asyncio.ensure_future(session.jobs.add([job("b")]))
    await asyncio.to_thread(plan.reached.wait)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert rig.faults.count("add") == 2


async def test_a_timeout_during_a_pause_ends_the_call() -> None:
    asleep = asyncio.Event()

    async def sleep(_: float) -> None:
        asleep.set()
        await asyncio.get_running_loop().create_future()

    rig = Rig(sleep=sleep)
    session = await rig.open()
    rig.faults.down = DOWN

    async def add_until_asleep() -> None:
        async with asyncio.timeout(None) as timeout:
            waiting = asyncio.ensure_future(asleep.wait())
            waiting.add_done_callback(lambda _: timeout.reschedule(0))
            await session.jobs.add([job("b")])

    with pytest.raises(TimeoutError):
        await add_until_asleep()
    assert rig.faults.count("add") == 1


async def test_concurrent_calls_in_trouble_do_not_disturb_each_other() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("get", before=DOWN, times=40)
    answers = await asyncio.gather(*(session.jobs.get(str(number)) for number in range(20)))
    assert answers == [None] * 20
    assert rig.faults.count("get") == 60


async def test_short_faults_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("get", before=DOWN, times=4)
    with caplog.at_level(logging.DEBUG, "holdfast"):
        await session.jobs.get("a")
    assert caplog.records == []

"""Ticks whose answers are lost, late or refused: nothing is done twice, and one bad move stands alone."""

import asyncio
from itertools import count
from typing import Any

import pytest

from holdfast.engine.exchange import Exchange, GaveUp
from holdfast.engine.pump import Pump
from holdfast.engine.standing import Standing
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, Tick
from holdfast.model.retry import Never
from tests.engine.rig import Gate, Rig
from tests.engine.test_suspects import suspected


def claims(tick: Tick) -> bool:
    return tick.want is not None and not tick.moves


def reports(tick: Tick) -> bool:
    return bool(tick.moves)


@pytest.mark.parametrize("which", [claims, reports])
@pytest.mark.parametrize(
    "fault",
    [
        {"before": StoreUnavailable("gone")},
        {"before": OutcomeUnknown("gone")},
        {"after": OutcomeUnknown("the reply was lost")},
        {"after": TimeoutError()},
        {"hangs": True},
        {"gate": "never"},
    ],
    ids=str,
)
async def test_a_tick_that_fails_is_sent_again_and_each_job_runs_and_completes_once(
    fault: dict[str, Any], which: Any
) -> None:
    rig = Rig(lease_seconds=60, call_timeout_seconds=0.1)
    if "gate" in fault:
        fault = {"gate": asyncio.Event()}
    runs = 0

    async def counted() -> None:
        nonlocal runs
        runs += 1

    task = rig.task(counted)
    jobs = [await rig.add(task) for _ in range(20)]
    rig.faults.plan("tick", times=2, when=which, **fault)
    assert await rig.drain() == 0
    assert runs == 20
    for job in jobs:
        assert await rig.outcomes(job) == ["success"]
        assert (await rig.job(job)).run == 1
    assert rig.seen.of("store_back")


class Told:
    """Whoever waits for results."""

    def __init__(self) -> None:
        self.states: dict[str, State] = {}

    def settled(self, record: JobRecord) -> None:
        self.states[record.id] = record.state


async def test_one_move_that_the_store_cannot_take_stands_alone_and_is_told_as_it_was_recorded() -> None:
    rig = Rig()

    async def good() -> None: ...

    task = rig.task(good, retry=Never())
    jobs = [await rig.add(task) for _ in range(9)]

    def has_bad(tick: Tick) -> bool:
        return any(move.job == jobs[4] and move.outcome == "success" for move in tick.moves)

    rig.faults.plan("tick", before=ValueError("no such thing"), times=float("inf"), when=has_bad)
    told = Told()
    assert await rig.worker(results=told).run(until_idle=True) == 0
    states = [await rig.state(job) for job in jobs]
    assert states == [State.DLQ if job == jobs[4] else State.SUCCESS for job in jobs]
    assert (await rig.job(jobs[4])).reason == "unrecordable: ValueError"
    assert [told.states[job] for job in jobs] == states


async def test_a_fault_of_the_claim_is_not_blamed_on_the_move_that_came_with_it() -> None:
    rig = Rig()

    async def good() -> None: ...

    job = await rig.add(rig.task(good))
    rig.faults.plan(
        "tick", before=ValueError("a row"), when=lambda tick: bool(tick.moves) and tick.want is not None
    )
    assert await rig.drain() == 0
    assert await rig.outcomes(job) == ["success"]


async def test_a_start_that_cannot_be_stored_closes_nothing_and_starts_nothing() -> None:
    rig = Rig()
    started = []

    async def starts() -> None:
        started.append(1)

    job = await rig.add(rig.task(starts))
    suspected(rig, job)
    rig.faults.plan(
        "tick",
        before=ValueError("a start"),
        times=float("inf"),
        when=lambda tick: any(move.outcome is None for move in tick.moves),
    )
    assert await rig.drain() == 0
    assert not started
    assert await rig.state(job) is State.CLAIMED, "its lease will expire"


async def test_a_move_that_cannot_be_recorded_in_any_form_is_left_to_expire() -> None:
    rig = Rig()

    async def good() -> None: ...

    job = await rig.add(rig.task(good))
    rig.faults.plan("tick", before=ValueError("a job"), times=float("inf"), when=reports)
    assert await rig.drain() == 0
    assert await rig.state(job) is State.CLAIMED


async def test_a_wake_up_during_a_tick_is_not_forgotten() -> None:
    rig = Rig(poll_seconds=3600)
    gate = asyncio.Event()
    asking = rig.faults.plan("tick", gate=gate, when=claims)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving():
        await asyncio.to_thread(asking.reached.wait)
        job = await rig.add(task)
        await asyncio.sleep(0)
        gate.set()
        await rig.seen.wait("settled", job=job)


async def test_a_due_time_that_passes_while_all_slots_are_taken_does_not_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0
    step = Pump._step

    async def counted(pump: Pump, exchange: Exchange, other: Exchange) -> None:
        nonlocal steps
        steps += 1
        await step(pump, exchange, other)

    monkeypatch.setattr(Pump, "_step", counted)
    rig = Rig(concurrency=1, lease_seconds=1)
    gate = Gate()
    task = rig.task(gate.pass_async)
    await rig.add(task, delay=0.01)
    job = await rig.add(task)
    async with rig.serving():
        await rig.seen.wait("heartbeat", count=3)
        gate.open()
        await rig.seen.wait("settled", job=job)
    assert steps < 60


async def test_a_store_that_is_down_is_not_asked_all_the_time() -> None:
    rig = Rig(lease_seconds=1)
    async with rig.serving() as worker:
        await rig.seen.wait("worker_started")
        rig.faults.down = StoreUnavailable("gone")
        await rig.seen.wait("heartbeat_failed", count=3)
        assert rig.faults.count("tick") < 20
        rig.faults.down = None
        await rig.seen.wait("store_back")
        worker.stop()
    assert worker.exit_code == 0


async def test_a_running_attempt_is_shown_as_running() -> None:
    rig = Rig(concurrency=1)
    gate = Gate()
    job = await rig.add(rig.task(gate.pass_async))
    shown = rig.faults.plan(
        "tick", gate=asyncio.Event(), when=lambda tick: any(move.outcome is None for move in tick.moves)
    )
    assert shown.gate is not None
    async with rig.serving():
        await asyncio.to_thread(shown.reached.wait)
        assert await rig.state(job) is State.RUNNING
        shown.gate.set()
        # All slots are taken and everything is said: a cancel must be heard nevertheless.
        await rig.cancel(job)
        await rig.seen.wait("settled", job=job)
    assert await rig.state(job) is State.CANCELLED


async def test_giving_up_just_when_a_call_runs_out_of_time_harms_nothing() -> None:
    rig = Rig()
    rig.faults.plan("tick", hangs=True, times=float("inf"))
    jobs = (await rig.store.connect("default")).jobs
    exchange = Exchange(
        jobs,
        "worker",
        count(1),
        Standing("worker", lambda jobs, sent: None),
        0.01,
        rig.notices,
        lambda hold, why: pytest.fail(why),
        lambda: None,
    )
    sending = asyncio.create_task(exchange.send([], None))
    loop = asyncio.get_running_loop()
    failed: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failed.append(context))
    await asyncio.sleep(0)
    assert exchange._waiting is not None
    runs_out = exchange._waiting.when()
    assert runs_out is not None
    loop.call_at(runs_out + 1e-10, exchange.give_up)
    with pytest.raises(GaveUp):
        await sending
    assert failed == []

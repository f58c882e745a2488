"""How a worker ends with two ticks in flight: it hears of both, or gives both up in time."""

import asyncio
from typing import Any

import pytest

from holdfast.engine import pump
from holdfast.engine.slots import Slots
from tests.engine.faulty import Call, FaultySession
from tests.engine.rig import PATIENCE
from tests.engine.stage import FIRST, ON_STAGE, SECOND, Stage, reached, turns


@pytest.fixture(autouse=True)
def _no_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """No start is told, however slow the machine is."""
    monkeypatch.setattr(pump, "REVIEW_SECONDS", float("inf"))


async def test_a_tick_that_was_cut_off_is_unknown_too() -> None:
    stage = Stage()
    await stage.begin()
    assert stage.running is not None
    repeated = asyncio.Event()
    again = stage.rig.faults.plan("tick", gate=repeated, when=lambda tick: tick.repeat)
    await stage.send(FIRST, hangs=True)
    before = len(stage.rig.faults.ticks)
    stage.running.cancel()
    await reached(again)
    await turns()
    # The stop has ended the other attempts, and they are a crowd.
    assert [tick.repeat for tick in stage.rig.faults.ticks[before:]] == [True]
    repeated.set()
    with pytest.raises(asyncio.CancelledError):
        await stage.running
    assert await stage.outcomes(ON_STAGE) == [["success"], ["released"], ["released"], ["released"]]


@pytest.mark.parametrize("grace", [0, 30])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first answered first", "second answered first"])
async def test_a_stop_gives_back_what_both_ticks_bring_and_starts_none_of_it(
    grace: float, order: tuple[int, int]
) -> None:
    stage = Stage(kill_seconds=5)
    worker = await stage.begin()
    await stage.add("efg")
    gates = await stage.both_in_flight()
    worker.stop(grace)
    if grace:
        stage.end("d")
    await turns()
    for number in order:
        gates[number].set()
        await stage.settled((FIRST, SECOND)[number])
    assert await stage.finish() == 0
    assert await stage.outcomes("abc") == [["success"]] * 3
    assert await stage.outcomes("d") == [["success" if grace else "released"]]
    assert await stage.outcomes("efg") == [["released"]] * 3
    assert not set(stage.runs) & set("efg")
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("in_flight", ["first", "second", "both"])
async def test_a_worker_that_is_cancelled_waits_for_the_ticks_in_flight_and_gives_back_what_they_bring(
    in_flight: str,
) -> None:
    stage = Stage(kill_seconds=5)
    await stage.begin()
    await stage.add("efg")
    first, second = await stage.both_in_flight()
    if in_flight == "first":
        second.set()
        await stage.settled(SECOND)
    elif in_flight == "second":
        first.set()
        await stage.settled(FIRST)
    assert stage.running is not None
    await turns()
    stage.running.cancel()
    await turns()
    if in_flight != "first":
        assert not stage.running.done()
    second.set()
    with pytest.raises(asyncio.CancelledError):
        await stage.running
    assert await stage.outcomes("abc") == [["success"]] * 3
    assert await stage.outcomes("defg") == [["released"]] * 4
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_second_cancellation_gives_up_the_first_line_and_what_is_told_by_the_other_stands() -> None:
    stage = Stage(kill_seconds=5)
    await stage.begin()
    await stage.add("efg")
    stage.rig.faults.plan("tick", hangs=True, when=lambda tick: tick.repeat)
    _, second = await stage.both_in_flight()
    assert stage.running is not None
    for _ in range(2):
        stage.running.cancel()
        await turns()
    assert not stage.running.done()
    second.set()
    with pytest.raises(asyncio.CancelledError):
        await stage.running
    assert await stage.outcomes("abc") == [["success"]] * 3
    assert await stage.outcomes("d") == [["released"]]
    given_back = [outcomes == ["released"] for outcomes in await stage.outcomes("efg")]
    assert given_back.count(True) == 2, "one was claimed by the tick that was given up; its lease will expire"
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("apart", range(1, 8))
async def test_however_often_a_worker_is_cancelled_it_leaves_nothing_running(
    apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = 0
    close = Slots.close

    async def counted(slots: Slots) -> None:
        nonlocal closed
        closed += 1
        await close(slots)

    monkeypatch.setattr(Slots, "close", counted)
    stage = Stage(kill_seconds=5)
    await stage.begin()
    await stage.both_in_flight()
    stage.rig.faults.plan("tick", session="pump", hangs=True, times=float("inf"))
    assert stage.running is not None
    while not stage.running.done():
        stage.running.cancel()
        await turns(apart)
    assert stage.running.cancelled()
    await turns()
    assert closed == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_silent_store_is_given_up_on_both_lines_in_time() -> None:
    stage = Stage(call_timeout_seconds=60)
    worker = await stage.begin()
    await stage.both_in_flight()
    stage.rig.faults.plan("tick", session="pump", hangs=True, times=float("inf"))
    worker.stop(0)
    async with asyncio.timeout(PATIENCE):
        assert await stage.finish() == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_session_is_closed_only_when_no_tick_uses_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    stage = Stage()
    worker = await stage.begin()
    await stage.send(FIRST, hangs=True)
    apply = stage.rig.faults.apply
    tick_left = asyncio.Event()

    async def apply_slowly(session: str, name: str, call: Call, argument: Any) -> Any:
        if (session, name) != ("pump", "tick"):
            return await apply(session, name, call, argument)
        try:
            tick_left.set()
            await asyncio.get_running_loop().create_future()
        finally:
            await turns()
            order.append("tick ended")

    async def close(session: FaultySession) -> None:
        order.append("session closed")

    monkeypatch.setattr(stage.rig.faults, "apply", apply_slowly)
    monkeypatch.setattr(FaultySession, "close", close)
    stage.end(SECOND)
    await tick_left.wait()
    worker.stop(0)
    assert await stage.finish() == 1
    assert order[:2] == ["tick ended", "session closed"]

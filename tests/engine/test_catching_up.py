"""The leader after downtime: however much is due, no turn is long, and one schedule holds up no other."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.engine import scheduler
from holdfast.model import schedule as rules
from holdfast.model.plan import firing_of
from holdfast.model.records import Verdict
from holdfast.model.recurrence import every
from holdfast.model.schedule import Decision, Schedule, ScheduleState
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.model.timing import SECOND, instant
from tests.engine.test_scheduler import Scene

MANY = 40


async def test_many_missed_firings_are_written_in_parts_and_none_is_left_out() -> None:
    scene = await Scene.make()
    put = await scene.put("tick", every(1), misfire="all", overlap="allow", catch_up=5_000)
    scene.clock.advance(5_000)
    turns = 0
    while await scene.turn() == 0.0:
        turns += 1
        before = len(await scene.jobs())
        assert before <= turns * scheduler.LARGEST // scheduler.BESIDE
    told = [firing_of(job) for job in await scene.jobs()]
    dues = sorted(instant(firing.due, "due") for firing in told if firing)
    assert dues == [put + number * SECOND for number in range(1, 5_001)]
    assert turns >= 4


async def test_when_deciding_takes_long_what_is_decided_is_written_and_the_rest_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = await Scene.make()
    for number in range(MANY):
        await scene.put(f"s{number:02}", every(60))
    scene.clock.advance(60)
    passed = iter(range(10**6))
    monkeypatch.setattr(
        "holdfast.engine.surroundings.now", lambda: next(passed) * scheduler.LONGEST_THOUGHT / 4
    )
    turns = 1
    while await scene.turn() == 0.0:
        turns += 1
    assert len(await scene.jobs()) == MANY
    assert MANY / 10 < turns < MANY


async def test_while_it_catches_up_its_loop_goes_on() -> None:
    scene = await Scene.make()
    await scene.put("tick", every(1), misfire="all", overlap="allow", catch_up=5_000)
    scene.clock.advance(5_000)
    duty = asyncio.create_task(scene.scheduler.run(scene.term))
    seen = set[int]()
    while len(await scene.jobs()) < 5_000:
        seen.add(len(await scene.jobs()))
        await asyncio.sleep(0)
    duty.cancel()
    assert len(seen) >= 4, "others had their turn between the parts"


async def test_one_that_fails_while_it_is_decided_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = await Scene.make()
    decide = rules.decide

    def sometimes(schedule: Schedule, state: ScheduleState, now: int, *, live: bool, most: int) -> Decision:
        if schedule.name == "bad":
            raise OverflowError("date value out of range")
        return decide(schedule, state, now, live=live, most=most)

    monkeypatch.setattr(rules, "decide", sometimes)
    await scene.put("bad", every(1))
    await scene.put("good", every(1))
    scene.clock.advance(1)
    await scene.turn()
    assert [firing.schedule for job in await scene.jobs() if (firing := firing_of(job))] == ["good"]
    assert "a schedule cannot be fired" in caplog.text
    monkeypatch.undo()
    scene.clock.advance(60)
    await scene.turn()
    fired = [firing.schedule for job in await scene.jobs() if (firing := firing_of(job))]
    assert "bad" in fired, "it is tried again"


async def test_one_that_somebody_else_has_locked_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await Scene.make()
    await scene.put("tick", every(1))
    scene.clock.advance(1)

    async def refuse(writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict]:
        return [Verdict.REFUSED] * len(writes)

    with monkeypatch.context() as patched:
        patched.setattr(scene.session.schedules, "write", refuse)
        assert await scene.turn() <= scheduler.SOONEST
    await scene.turn()
    assert len(await scene.jobs()) == 1

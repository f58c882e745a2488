"""Two ticks in flight, and a store that loses, refuses or delays them: each job still completes once."""

import asyncio
import random
from typing import Any

import pytest

from holdfast.engine import outage, pump
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.records import Tick
from holdfast.model.retry import Never
from tests.engine.faulty import Call
from tests.engine.rig import Rig
from tests.engine.stage import FIRST, SECOND, Stage, ends, reached, starts, turns


@pytest.fixture(autouse=True)
def _no_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts are told only where a test is about them, however slow the machine is."""
    monkeypatch.setattr(pump, "REVIEW_SECONDS", float("inf"))


FAULTS: list[dict[str, Any]] = [
    {"before": OutcomeUnknown("lost")},
    {"after": OutcomeUnknown("lost")},
    {"after": TimeoutError()},
    {"before": StoreUnavailable("gone")},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("line", [FIRST, SECOND])
async def test_nothing_new_is_sent_before_what_is_unknown_on_either_line_is_settled(
    line: str, fault: dict[str, Any]
) -> None:
    stage = Stage()
    await stage.begin()
    await stage.add("efg")
    faults = stage.rig.faults
    if line == FIRST:
        await stage.send(FIRST, times=3, **fault)
        stage.end(SECOND)
    else:
        answered = asyncio.Event()
        await stage.send(FIRST, gate=answered)
        await stage.send(SECOND, times=3, **fault)
        answered.set()
    stage.end("d")
    await stage.rig.seen.wait("store_back")
    sent = [tick for tick in faults.ticks if ends(*stage.ids(line))(tick)]
    assert len(sent) == 4
    assert len({tick.seq for tick in sent}) == 1
    assert [tick.repeat for tick in sent[1:]] == [
        isinstance(_error(fault), OutcomeUnknown | TimeoutError)
    ] * 3
    since = faults.ticks[faults.ticks.index(sent[0]) :]
    assert since[:4] == sent, "the same tick until it is answered, and nothing between"
    await stage.settled("abcd")
    stage.end("efg")
    await stage.settled("abcdefg")
    await _stop(stage)
    assert await stage.outcomes("abcdefg") == [["success"]] * 7
    assert set(stage.runs.values()) == {1}


def _error(fault: dict[str, Any]) -> BaseException:
    error = fault.get("before") or fault["after"]
    assert isinstance(error, BaseException)
    return error


async def test_both_lines_may_be_unknown_and_each_repeats_its_own() -> None:
    stage = Stage()
    await stage.begin()
    await stage.add("efg")
    first, second = asyncio.Event(), asyncio.Event()
    lost = OutcomeUnknown("lost")
    await stage.send(FIRST, gate=first, after=lost)
    await stage.send(SECOND, gate=second, after=lost)
    first.set()
    second.set()
    stage.end("defg")
    await stage.settled("abcdefg")
    await _stop(stage)
    assert await stage.outcomes("abcdefg") == [["success"]] * 7
    assert set(stage.runs.values()) == {1}, "each got back what its own tick had claimed"
    repeated = [tick.seq for tick in stage.rig.faults.ticks if tick.repeat]
    assert sorted(repeated) == sorted(set(repeated))
    assert len(repeated) == 2


@pytest.mark.parametrize("line", [FIRST, SECOND])
async def test_one_bad_move_on_either_line_stands_alone(line: str) -> None:
    stage = Stage()
    await stage.begin()
    await stage.add("efg")
    bad = stage.jobs[line[-1]]

    def has_bad(tick: Tick) -> bool:
        return any(move.job == bad and move.outcome == "success" for move in tick.moves)

    stage.rig.faults.plan("tick", before=ValueError("bad"), times=float("inf"), when=has_bad)
    other = asyncio.Event()
    if line == FIRST:
        # The crowd leaves while the first line is still finding out.
        instead = stage.rig.faults.plan("tick", entry=other, when=ends(bad))
        stage.end(FIRST)
        await reached(instead)
        stage.end(SECOND)
        await stage.settled(SECOND)
    else:
        await stage.send(FIRST, gate=other)
        stage.end(SECOND)
        await stage.settled(SECOND)
    other.set()
    stage.end("defg")
    await stage.settled("abcdefg")
    await _stop(stage)
    for name in "abcdefg":
        expected = "retry" if stage.jobs[name] == bad else "success"
        assert await stage.outcomes(name) == [[expected]]
    assert (await stage.rig.job(bad)).reason == "unrecordable: ValueError"


async def test_a_store_that_refuses_even_a_claim_on_the_second_line_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    await stage.begin()
    answered = asyncio.Event()
    showing = stage.rig.faults.plan("tick", gate=answered, when=starts(*stage.ids("bcd")))
    monkeypatch.setattr(pump, "REVIEW_SECONDS", 0.0)
    stage.end("a")
    await reached(showing)
    monkeypatch.setattr(pump, "REVIEW_SECONDS", float("inf"))
    entry = asyncio.Event()
    broken = stage.rig.faults.plan(
        "tick", entry=entry, before=LookupError("broken"), when=lambda tick: not tick.moves
    )
    await stage.add("e")
    stage.end("bc")  # Their ends wait for their starts: the second line has only a claim to send.
    await reached(broken)
    answered.set()
    await stage.settled("bc")
    await turns()
    entry.set()  # The first line has nothing to do now, and hears of it nevertheless.
    assert stage.running is not None
    with pytest.raises(LookupError):
        await stage.running
    assert await stage.outcomes("abcd") == [["success"]] * 3 + [["released"]]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("seed", range(16))
async def test_whatever_the_store_does_to_the_ticks_each_job_runs_and_completes_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers late, out of order, lost or refused, at random, on both lines."""
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(outage, "LONGEST_PAUSE", 0.0)
    monkeypatch.setattr(pump, "REVIEW_SECONDS", 0.001)
    dice = random.Random(seed)
    batch, concurrency = dice.choice((1, 2, 4, 40)), dice.choice((1, 2, 5, 50))
    rig = Rig(batch=batch, concurrency=concurrency, lease_seconds=600)
    runs: list[int] = []
    asked = busiest = 0

    async def works(number: int, length: int) -> None:
        runs.append(number)
        await turns(length)

    task = rig.task(works, retry=Never())
    jobs = [await rig.add(task, number, dice.choice((0, 0, 1, 5, 50))) for number in range(150)]

    async def apply(session: str, name: str, call: Call, tick: Any) -> Any:
        nonlocal asked, busiest
        if (session, name) != ("pump", "tick"):
            return await call()
        asked += 1
        busiest = max(busiest, asked)
        try:
            await turns(dice.choice((0, 1, 3, 30)))
            fate = dice.random()
            if fate < 0.05:
                raise OutcomeUnknown("lost")
            if fate < 0.1:
                raise StoreUnavailable("gone")
            if fate < 0.15 and not tick.repeat and len(tick.moves) > 1:
                raise ValueError("refused")
            answer = await call()
            await turns(dice.choice((0, 1, 3, 30)))
            if fate > 0.95:
                raise OutcomeUnknown("lost")
            return answer
        finally:
            asked -= 1

    monkeypatch.setattr(rig.faults, "apply", apply)
    assert await rig.drain() == 0
    assert sorted(runs) == list(range(150))
    assert [await rig.outcomes(job) for job in jobs] == [["success"]] * 150
    assert busiest <= 2


async def _stop(stage: Stage) -> None:
    """Ends the worker though nothing waits for it to be told."""
    assert stage.running is not None
    stage.rig.faults.plans.clear()
    stage.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stage.running

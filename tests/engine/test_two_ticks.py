"""Two ticks in flight: nothing is lost, told twice or out of order, and neither line waits for nothing."""

import asyncio
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase, digits

import pytest

from holdfast.engine import pump
from holdfast.engine.appetite import Appetite
from holdfast.engine.exchange import Exchange
from holdfast.engine.pump import FEW, Pump
from holdfast.model.errors import OutcomeUnknown
from holdfast.model.lifecycle import State
from holdfast.model.records import Verdict
from tests.engine.rig import Rig
from tests.engine.stage import FIRST, SECOND, Stage, ends, reached, starts, turns


@pytest.fixture(autouse=True)
def _no_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts are told only where a test is about them, however slow the machine is."""
    monkeypatch.setattr(pump, "REVIEW_SECONDS", float("inf"))


async def test_a_crowd_that_gathers_behind_a_tick_leaves_before_that_is_answered() -> None:
    stage = Stage()
    worker = await stage.begin()
    first, second = await stage.both_in_flight()
    assert await stage.outcomes("abc") == [["success"]] * 3
    second.set()
    await stage.settled(SECOND)
    assert not stage.rig.seen.of("settled", job=stage.jobs[FIRST])
    first.set()
    await stage.settled(FIRST)
    worker.stop()
    assert await stage.finish() == 0
    seqs = [tick.seq for tick in stage.rig.faults.ticks]
    assert all(earlier < later for earlier, later in pairwise(seqs))


async def test_what_is_no_crowd_waits_for_the_tick_in_flight() -> None:
    stage = Stage()
    worker = await stage.begin()
    first = asyncio.Event()
    await stage.send(FIRST, gate=first)
    stage.end("b")
    await turns()
    assert await stage.outcomes("b") == [[]]
    first.set()
    await stage.settled("b")
    worker.stop()
    assert await stage.finish() == 0


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "out of order"])
async def test_the_store_may_do_the_second_tick_first(order: tuple[int, int]) -> None:
    stage = Stage()
    worker = await stage.begin()
    await stage.add("efg")
    entries = asyncio.Event(), asyncio.Event()
    await stage.send(FIRST, entry=entries[0])
    await stage.send(SECOND, entry=entries[1])
    for number in order:
        entries[number].set()
        await stage.settled((FIRST, SECOND)[number])
    stage.end("defg")
    await stage.settled("defg")
    worker.stop()
    assert await stage.finish() == 0
    assert await stage.outcomes("abcdefg") == [["success"]] * 7
    assert set(stage.runs.values()) == {1}


async def test_an_end_waits_for_the_start_that_is_in_flight_on_the_other_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    worker = await stage.begin()
    entry = asyncio.Event()
    showing = stage.rig.faults.plan("tick", entry=entry, when=starts(*stage.ids("abcd")))
    monkeypatch.setattr(pump, "REVIEW_SECONDS", 0.0)
    stage.end("a")
    await reached(showing)
    stage.end("bc")
    await turns()
    assert not any(ends(*stage.ids("bc"))(tick) for tick in stage.rig.faults.ticks)
    entry.set()
    await stage.settled("bc")
    stage.end("d")
    await stage.settled("d")
    assert await stage.outcomes("abcd") == [["success"]] * 4
    assert {notice.facts["verdict"] for notice in stage.rig.seen.of("settled")} == {Verdict.ACCEPTED}
    told = [move.job for tick in stage.rig.faults.ticks for move in tick.moves if move.outcome is None]
    assert sorted(told) == sorted(stage.ids("bcd")), "each start is told once"
    worker.stop()
    assert await stage.finish() == 0


async def test_claims_in_flight_on_both_lines_count_against_the_free_slots() -> None:
    stage = Stage()
    worker = await stage.begin()
    await stage.add("efghij")
    first, second = await stage.both_in_flight()
    wanted = [tick.want.limit for tick in stage.rig.faults.ticks[-2:] if tick.want is not None]
    assert wanted == [1, 2]
    assert len(stage.runs) == 4
    leased = [name for name in "defghij" if await stage.rig.state(stage.jobs[name]) is State.CLAIMED]
    assert len(leased) == 4, "as many as there are slots"
    first.set()
    second.set()
    await stage.settled("abc")
    worker.stop()
    assert await stage.finish() == 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    """Every turn of the worker, by the line that it was for."""
    taken: list[Exchange] = []
    step = Pump._step

    async def noted(pump: Pump, exchange: Exchange, other: Exchange) -> None:
        taken.append(exchange)
        await step(pump, exchange, other)

    monkeypatch.setattr(Pump, "_step", noted)
    return taken


async def test_a_worker_does_not_spin_while_the_other_line_asks_for_all_that_it_could_take(
    monkeypatch: pytest.MonkeyPatch, steps: list[Exchange]
) -> None:
    monkeypatch.setattr(Appetite, "_prefetch", lambda self: 0)
    stage = Stage()
    worker = await stage.begin()
    first, second = await stage.both_in_flight()
    first.set()
    await stage.settled(FIRST)
    await stage.add("e")
    await turns()
    before = len(steps)
    await turns(1000)
    assert len(steps) - before < 5
    assert len(stage.rig.faults.ticks) < 10
    second.set()
    await stage.rig.seen.wait("claimed", job=stage.jobs["e"])
    worker.stop()
    assert await stage.finish() == 0


async def test_a_worker_does_not_spin_while_the_other_line_waits_to_know(steps: list[Exchange]) -> None:
    stage = Stage()
    worker = await stage.begin()
    first, repeated = asyncio.Event(), asyncio.Event()
    await stage.send(FIRST, gate=first)
    again = stage.rig.faults.plan("tick", gate=repeated, when=lambda tick: tick.repeat)
    await stage.send(SECOND, after=OutcomeUnknown("lost"))
    await reached(again)
    first.set()
    stage.end("d")
    await stage.settled(FIRST)
    await turns()
    before = len(steps)
    await turns(1000)
    assert len(steps) - before < 5
    repeated.set()
    await stage.settled("bcd")
    worker.stop()
    assert await stage.finish() == 0


async def test_many_jobs_that_a_tick_brought_are_taken_in_though_the_other_line_waits_to_know() -> None:
    running, waiting = ascii_lowercase + digits, ascii_uppercase
    few, crowd, rest = running[: FEW + 1], running[FEW + 1 : -1], running[-1]
    stage = Stage(running)
    worker = await stage.begin()
    await stage.add(waiting)
    first, repeated = asyncio.Event(), asyncio.Event()
    again = stage.rig.faults.plan("tick", gate=repeated, when=lambda tick: tick.repeat)
    await stage.send(few, gate=first)
    await stage.send(crowd, after=OutcomeUnknown("lost"))
    await reached(again)
    first.set()
    await stage.settled(few)
    await turns()
    assert len(stage.runs) == len(running) + len(few), "they run, though nothing more can be asked for"
    repeated.set()
    stage.end(rest)
    await stage.settled(crowd + rest)
    worker.stop()
    assert await stage.finish() == 0


async def test_many_jobs_that_leave_nothing_more_to_ask_for_are_taken_in_at_once() -> None:
    rig = Rig(concurrency=FEW + 1, batch=FEW + 1)

    async def good() -> None: ...

    task = rig.task(good)
    jobs = [await rig.add(task) for _ in range(3 * FEW)]
    assert await rig.drain() == 0
    assert [await rig.outcomes(job) for job in jobs] == [["success"]] * len(jobs)


async def test_a_few_reports_wait_for_the_tick_in_flight_while_the_slots_are_fed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Appetite, "_prefetch", lambda self: 4)
    stage = Stage()
    worker = await stage.begin()
    await stage.add("efghi")
    for name in "efgh":
        await stage.rig.seen.wait("claimed", job=stage.jobs[name])
    first, second = await stage.both_in_flight()
    stage.end("d")
    await turns()
    first.set()
    await stage.settled(FIRST)
    await turns()
    assert await stage.outcomes("d") == [[]]
    second.set()
    await stage.settled("d")
    worker.stop()
    assert await stage.finish() == 0


async def test_a_worker_that_both_lines_find_forgotten_registers_once_and_goes_on_at_once() -> None:
    stage = Stage()
    worker = await stage.begin()
    await (await stage.rig.memory.connect("default")).fleet.retire(worker.id)
    await stage.add("efg")
    first, second = await stage.both_in_flight()
    registered = asyncio.Event()
    registering = stage.rig.faults.plan("register", gate=registered)
    first.set()
    await reached(registering)
    second.set()
    await turns()
    registered.set()
    for name in "efg":
        await stage.rig.seen.wait("claimed", job=stage.jobs[name])
    assert stage.rig.faults.count("register") == 2, "at the start, and once again"
    worker.stop()
    assert await stage.finish() == 0


async def test_until_idle_waits_for_what_the_second_line_brings() -> None:
    stage = Stage()
    await stage.begin(until_idle=True)
    await stage.add("ef")
    stage.end("ef")
    first, second = await stage.both_in_flight()
    stage.end("d")
    first.set()
    await stage.settled(FIRST)
    await turns()
    assert stage.running is not None
    assert not stage.running.done()
    second.set()
    assert await stage.finish() == 0
    assert await stage.outcomes("abcdef") == [["success"]] * 6


async def test_what_waits_for_a_slot_goes_back_when_either_line_hears_of_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Appetite, "_prefetch", lambda self: 4)
    stage = Stage()
    worker = await stage.begin()
    await stage.add("efghij")
    for name in "efgh":
        await stage.rig.seen.wait("claimed", job=stage.jobs[name])
    first, second = asyncio.Event(), asyncio.Event()
    await stage.send(FIRST, gate=first)
    await (await stage.rig.memory.connect("default")).fleet.pause("default")
    await stage.send(SECOND, gate=second)
    assert await stage.rig.state(stage.jobs["i"]) is State.CLAIMED, "by the tick before the pause"
    second.set()
    await stage.settled(SECOND)
    first.set()
    await stage.settled("hi")
    assert set(stage.runs) == set("abcdefg")
    assert await stage.outcomes("hij") == [["released"], ["released"], []]
    worker.stop()
    assert await stage.finish() == 0

"""Jobs that are handed to an idle worker, in whatever order it hears of it: each is run once."""

import asyncio
from itertools import count
from typing import Any

import pytest

from holdfast.engine.exchange import Exchange
from holdfast.engine.standing import Standing
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.records import Handed, Tick, Ticked, Want
from holdfast.model.timing import SECOND
from tests.engine.handing import shelved, ticks_of
from tests.engine.rig import Gate, Rig


def stands(tick: Tick) -> bool:
    return tick.want is not None and tick.want.stands > 0


async def test_a_job_that_is_handed_over_runs_without_being_asked_for_and_the_worker_stands_again() -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving():
        for _ in range(3):
            await shelf.standing()
            job = await rig.add(task)
            shelf.tell(await shelf.hand())
            await rig.seen.wait("settled", job=job)
            assert await rig.outcomes(job) == ["success"]
        await shelf.standing()


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_job_that_is_told_before_the_answer_runs_once(is_lost: bool) -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)
    gate = asyncio.Event()
    after = OutcomeUnknown("the reply was lost") if is_lost else None
    asking = rig.faults.plan("tick", gate=gate, after=after, when=stands)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving():
        await asyncio.to_thread(asking.reached.wait)
        job = await rig.add(task)
        shelf.tell(await shelf.hand())
        await asyncio.sleep(0)
        assert await rig.state(job) is State.CLAIMED
        gate.set()
        await rig.seen.wait("settled", job=job)
        await shelf.standing()
    assert await rig.outcomes(job) == ["success"]
    assert len(rig.seen.of("claimed", job=job)) == 1


async def test_a_job_whose_message_comes_after_the_next_tick_has_left_comes_with_its_answer() -> None:
    rig = Rig(poll_seconds=600, concurrency=2)
    shelf = shelved(rig)
    gate, busy = asyncio.Event(), Gate()
    task = rig.task(busy.pass_async)
    async with rig.serving() as worker:
        await shelf.standing()
        job = await rig.add(task)
        handed = await shelf.hand()
        asking = rig.faults.plan("tick", entry=gate, when=stands)
        assert worker._pump is not None
        worker._pump.wake()
        await asyncio.to_thread(asking.reached.wait)
        shelf.tell(handed)
        gate.set()
        await busy.wait_entered()
        shelf.tell(handed)
        busy.open()
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]
    assert len(rig.seen.of("claimed", job=job)) == 1
    assert asking.times == 0


@pytest.mark.parametrize("header_only", [False, True])
async def test_a_message_that_is_lost_or_too_small_costs_one_tick(header_only: bool) -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving() as worker:
        await shelf.standing()
        job = await rig.add(task)
        handed = await shelf.hand(header_only=header_only)
        if header_only:
            shelf.tell(handed)
        else:
            assert worker._pump is not None
            worker._pump.wake()
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]


async def test_a_message_without_jobs_before_a_repeat_that_gives_them_gives_them_once() -> None:
    rig = Rig(poll_seconds=600, concurrency=2)
    shelf = shelved(rig)
    gate, busy = asyncio.Event(), Gate()
    asking = rig.faults.plan("tick", gate=gate, after=OutcomeUnknown("lost"), when=stands)
    task = rig.task(busy.pass_async)
    async with rig.serving():
        await asyncio.to_thread(asking.reached.wait)
        job = await rig.add(task)
        shelf.tell(await shelf.hand(header_only=True))
        gate.set()
        await busy.wait_entered()
        await shelf.standing()
        busy.open()
        await rig.seen.wait("settled", job=job)
    assert len(rig.seen.of("claimed", job=job)) == 1
    assert await rig.outcomes(job) == ["success"]


async def test_a_message_for_another_worker_of_the_session_or_of_an_older_want_is_left_alone() -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving():
        await shelf.standing()
        job = await rig.add(task)
        handed = await shelf.hand()
        shelf.tell(Handed(worker="another", seq=handed.seq, after=0, claimed=handed.claimed))
        shelf.tell(Handed(worker=handed.worker, seq=handed.seq + 7, after=0, claimed=handed.claimed))
        assert not rig.seen.of("claimed")
        shelf.tell(handed)
        shelf.tell(handed)
        await rig.seen.wait("settled", job=job)
        await shelf.standing()
    assert len(rig.seen.of("claimed", job=job)) == 1


async def test_a_worker_that_stops_ends_its_want_and_gives_back_what_came_meanwhile() -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving() as worker:
        seq = await shelf.standing()
        job = await rig.add(task)
        await shelf.hand()
        worker.stop()
    ending, _ = ticks_of(rig, worker)[-2:]
    assert (ending.want, ending.stood) == (None, seq)
    assert await rig.outcomes(job) == ["released"]
    assert await rig.state(job) is State.SCHEDULED
    assert worker.exit_code == 0


async def test_a_worker_that_stops_while_its_tick_is_away_ends_the_want_of_that_tick() -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)
    gate = asyncio.Event()
    asking = rig.faults.plan("tick", gate=gate, when=stands)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving() as worker:
        await asyncio.to_thread(asking.reached.wait)
        worker.stop()
        gate.set()
    assert shelf.seq is None, "nothing stands"
    job = await rig.add(task)
    assert await rig.state(job) is State.SCHEDULED


async def test_a_worker_until_idle_lets_nothing_stand() -> None:
    rig = Rig(poll_seconds=600)
    shelf = shelved(rig)
    assert await rig.drain() == 0
    assert (shelf.seq, shelf.takers) == (None, [])
    assert not any(map(stands, rig.faults.ticks))


async def test_a_worker_whose_slots_are_taken_does_not_stand_in_the_way_of_idle_ones() -> None:
    rig = Rig(poll_seconds=600, concurrency=1)
    shelf = shelved(rig)
    busy = Gate()
    slow = rig.task(busy.pass_async)

    async def quick() -> None: ...

    fast = rig.task(quick)
    for _ in range(20):
        await rig.add(fast)
    async with rig.serving() as worker:
        await rig.seen.wait("settled", count=20)
        await shelf.standing()
        job = await rig.add(slow)
        shelf.tell(await shelf.hand())
        await busy.wait_entered()
        assert worker._pump is not None
        before = len(rig.faults.ticks)
        worker._pump.wake()
        for _ in range(20):
            await asyncio.sleep(0)
        asked = rig.faults.ticks[before:]
        assert not any(map(stands, asked)), "it may claim ahead, since jobs were quick, but not keep"
        assert shelf.seq is None
        busy.open()
        await rig.seen.wait("settled", job=job)


async def test_a_tick_that_is_refused_leaves_the_want_before_it() -> None:
    rig = Rig(poll_seconds=600, concurrency=2)
    shelf = shelved(rig)
    busy = Gate()
    task = rig.task(busy.pass_async)
    async with rig.serving():
        await shelf.standing()
        first = await rig.add(task)
        shelf.tell(await shelf.hand())
        await busy.wait_entered()
        seq = await shelf.standing()
        refused = rig.faults.plan("tick", before=ValueError("no"), when=lambda tick: tick.stood == seq)
        second = await rig.add(task)
        handed = await shelf.hand()
        busy.open()
        await rig.seen.wait("settled", job=first)
        assert refused.times == 0
        shelf.tell(handed)
        await rig.seen.wait("settled", job=second)
    assert len(rig.seen.of("claimed", job=second)) == 1
    assert await rig.outcomes(second) == ["success"]


async def test_an_outage_while_a_want_stands_loses_nothing() -> None:
    rig = Rig(poll_seconds=0.05)
    shelf = shelved(rig)

    async def good() -> None: ...

    task = rig.task(good)
    async with rig.serving():
        await shelf.standing()
        rig.faults.down = StoreUnavailable("gone")
        await rig.seen.wait("tick_failed")
        job = await rig.add(task)
        handed = await shelf.hand()
        rig.faults.down = None
        shelf.tell(handed)
        await rig.seen.wait("settled", job=job)
    assert await rig.outcomes(job) == ["success"]
    assert len(rig.seen.of("claimed", job=job)) == 1


WANT = Want(queues=("default",), tasks=frozenset({"t"}), limit=3, lease=SECOND, stands=SECOND)


def test_of_two_ticks_that_are_away_only_the_first_stands() -> None:
    standing = Standing("w", lambda jobs, sent: None)
    first, second = (Tick(worker="w", seq=seq, moves=[], want=WANT) for seq in (1, 2))
    standing.leaves(first)
    standing.leaves(second)
    assert first.want == WANT
    assert second.want is not None
    assert (second.want.stands, second.want.limit, second.stood) == (False, 3, None)


def test_what_is_handed_over_is_trusted_from_when_it_was_at_the_earliest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([100.0, 160.0])
    monkeypatch.setattr("holdfast.engine.surroundings.now", lambda: next(times))
    taken: list[float] = []
    standing = Standing("w", lambda jobs, sent: taken.append(sent))
    tick = Tick(worker="w", seq=1, moves=[], want=WANT)
    standing.leaves(tick)
    standing.refused(Tick(worker="w", seq=9, moves=[]), 7.0)
    standing._is_answered = True
    standing.receive(Handed(worker="w", seq=1, after=20 * SECOND, claimed=[]))
    assert taken == [120.0]


@pytest.mark.parametrize(("ago", "sent"), [(None, 100.0), (20 * SECOND, 140.0)])
async def test_what_comes_with_an_answer_is_trusted_from_when_it_was_handed_over_at_the_earliest(
    monkeypatch: pytest.MonkeyPatch, ago: int | None, sent: float
) -> None:
    rig = Rig()
    moment = 100.0
    monkeypatch.setattr("holdfast.engine.surroundings.now", lambda: moment)

    class Jobs:
        async def tick(self, tick: Tick) -> Ticked:
            return Ticked(
                verdicts=[],
                claimed=[],
                cancel_asked=[],
                paused=frozenset(),
                next_due=None,
                registered=True,
                handed=0 if tick.stood is None else 1,
                handed_ago=ago,
                stands=True,
            )

    jobs: Any = Jobs()
    exchange = Exchange(
        jobs,
        "worker",
        count(1),
        Standing("worker", lambda jobs, sent: None),
        1.0,
        rig.notices,
        lambda hold, why: pytest.fail(why),
        lambda: None,
    )
    assert (await exchange.send([], WANT)).sent == 100.0
    moment = 160.0
    assert (await exchange.send([], WANT)).sent == sent


async def test_an_idle_worker_ends_soon_and_well_though_the_store_hears_of_nothing() -> None:
    rig = Rig(poll_seconds=600, grace_seconds=600, kill_seconds=0.2)
    shelf = shelved(rig)

    async def good() -> None: ...

    rig.task(good)
    worker = rig.worker()
    async with worker:
        await shelf.standing()
        rig.faults.plan("tick", hangs=True, times=float("inf"))
    assert worker.exit_code == 0

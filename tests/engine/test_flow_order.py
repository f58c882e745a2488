"""Sequences, links and expiry as workers see them."""

import asyncio
from typing import Any

import pytest

from holdfast import Context
from holdfast.engine.client import Client
from holdfast.engine.janitor import Janitor
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.sequences import Sequences
from holdfast.model.lifecycle import State
from holdfast.model.retry import Fixed, Never
from tests.engine.rig import Gate, Rig


class Play(Rig):
    """Steps of sequences, which fail as often as they are told, and the order in which they ran."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.ran: list[str] = []
        self.now: set[str] = set()

        async def step(name: str, fails: int = 0) -> None:
            self.ran.append(name)
            assert not self.now & {name[0]}, "two of one sequence at once"
            self.now.add(name[0])
            await asyncio.sleep(0)
            self.now.discard(name[0])
            if self.ran.count(name) <= fails:
                raise ValueError("as asked")

        self.step = self.task(step, retry=Fixed(max_retries=1, wait=30))
        self.once = self.task(step, name="once", retry=Never())

    async def client(self) -> Client:
        session = await self.memory.connect("default")
        locks = Locks(
            session.locks, Renewer(lambda: self.memory.connect("default"), self.notices), self.notices
        )
        return Client(session, self.settings, self.registry, locks=locks)

    async def expire(self) -> int:
        session = await self.memory.connect("default")
        return await Janitor(session, "janitor", self.settings, self.notices).expire()

    async def states(self, *jobs: str) -> list[str]:
        return [(await self.state(job)).value for job in jobs]

    async def drain_with(self, workers: int) -> None:
        ends = await asyncio.gather(*(self.worker().run(until_idle=True) for _ in range(workers)))
        assert ends == [0] * workers


async def test_steps_come_in_order_though_some_are_retried_and_several_workers_take_them() -> None:
    play = Play(concurrency=4)
    for number in range(6):
        for name in "abc":
            await play.add(play.step, f"{name}{number}", int(number % 3 == 1), sequence_key=name)
    for _ in range(8):
        await play.drain_with(3)
        play.clock.advance(30)
    for name in "abc":
        assert [word for word in play.ran if word[0] == name] == [
            f"{name}{number}" for number in (0, 1, 1, 2, 3, 4, 4, 5)
        ]


async def test_a_step_that_failed_for_good_halts_what_comes_after_it_until_it_is_replayed() -> None:
    play = Play()
    halting: dict[str, Any] = {"sequence_key": "a", "on_failure": "halt"}
    first = await play.add(play.once, "a0", 1, **halting)
    second = await play.add(play.once, "a1", **halting)
    other = await play.add(play.once, "b0", sequence_key="b")
    await play.drain()
    assert await play.states(first, second, other) == ["dlq", "scheduled", "success"]
    client = await play.client()
    sequences = Sequences(lambda: client.session)
    assert await sequences.halted() == {"a": first}
    third = await play.add(play.once, "a2", **halting)
    assert first in str(await client.explain(second))
    await play.drain()
    assert play.ran == ["a0", "b0"]
    await client.replay(first)
    await play.drain()
    assert play.ran == ["a0", "b0", "a0", "a1", "a2"]
    assert await play.states(first, second, third) == ["success"] * 3
    assert await sequences.halted() == {}


@pytest.mark.parametrize("way", ["delete", "proceed"])
async def test_a_halt_ends_when_its_job_is_discarded_or_by_word(way: str) -> None:
    play = Play(poll_seconds=3600)
    first = await play.add(play.once, "a0", 1, sequence_key="a", on_failure="halt")
    second = await play.add(play.once, "a1", sequence_key="a")
    client = await play.client()
    async with play.serving():
        await play.seen.wait("settled", job=first)
        if way == "delete":
            assert await client.delete(first)
        else:
            await Sequences(lambda: client.session).proceed("a")
        await play.seen.wait("settled", job=second)
    assert play.ran == ["a0", "a1"]


async def test_a_failed_step_that_does_not_halt_and_one_that_is_cancelled_give_way() -> None:
    play = Play()
    failing = await play.add(play.once, "a0", 1, sequence_key="a")
    cancelled = await play.add(play.step, "a1", sequence_key="a")
    delayed = await play.add(play.step, "a2", sequence_key="a", delay=60)
    last = await play.add(play.step, "a3", sequence_key="a")
    client = await play.client()
    await client.cancel(cancelled)
    await play.drain()
    assert play.ran == ["a0"]
    play.clock.advance(60)
    await play.drain()
    assert play.ran == ["a0", "a2", "a3"]
    assert await play.states(failing, cancelled, delayed, last) == ["dlq", "cancelled", "success", "success"]


async def test_a_worker_that_dies_in_a_step_keeps_the_next_one_back_until_its_lease_ends() -> None:
    play = Play(lease_seconds=30)
    first = await play.add(play.step, "a0", sequence_key="a")
    second = await play.add(play.step, "a1", sequence_key="a")
    play.faults.die_at(3, after=False)
    dying = asyncio.create_task(play.worker().run(until_idle=True))
    await play.faults.died.wait()
    dying.cancel()
    play.next_process()
    await play.drain()
    assert await play.states(first, second) == ["claimed", "scheduled"]
    play.clock.advance(31)
    await play.reclaim()
    await play.drain()
    assert play.ran == ["a0", "a0", "a1"]


async def test_what_comes_after_jobs_waits_for_their_success_and_is_cancelled_with_the_reason() -> None:
    play = Play()
    good = await play.add(play.once, "g")
    bad = await play.add(play.task(_fail, dead_letter=False, retry=Never()))
    fine = await play.add(play.once, "x", after=[good])
    hopeless = await play.add(play.once, "y", after=[good, bad])
    anyway = await play.add(play.once, "z", after=[good, bad], after_any=True)
    await play.drain()
    assert await play.states(fine, hopeless, anyway) == ["success", "cancelled", "success"]
    assert (await play.job(hopeless)).reason == "1 of the jobs that it comes after did not succeed"
    assert "y" not in play.ran


async def _fail() -> None:
    raise ValueError("as asked")


async def test_what_comes_after_a_dead_job_goes_on_when_that_is_replayed() -> None:
    play = Play()
    first = await play.add(play.once, "a", 1)
    then = await play.add(play.once, "b", after=[first])
    anyway = await play.add(play.once, "c", after=[first], after_any=True)
    await play.drain()
    assert await play.states(first, then, anyway) == ["dlq", "scheduled", "success"]
    client = await play.client()
    assert first in str(await client.explain(then))
    await client.replay(first)
    await play.drain()
    assert await play.states(first, then) == ["success", "success"]
    assert play.ran == ["a", "c", "a", "b"]


@pytest.mark.parametrize("way", ["cancel", "delete"])
async def test_a_chain_of_five_falls_with_its_first_and_a_diamond_closes_once(way: str) -> None:
    play = Play()
    client = await play.client()
    chain = [await play.add(play.once, "0", delay=3600)]
    for number in range(1, 5):
        chain.append(await play.add(play.once, str(number), after=[chain[-1]]))
    top = await play.add(play.once, "t")
    sides = [await play.add(play.once, name, after=[top]) for name in ("l", "r")]
    bottom = await play.add(play.once, "d", after=sides)
    if way == "cancel":
        await client.cancel(chain[0])
    else:
        assert await client.delete(chain[0])
    await play.drain()
    assert await play.states(*chain[1:]) == ["cancelled"] * 4
    assert play.ran == ["t", "l", "r", "d"]
    assert await play.state(bottom) is State.SUCCESS


async def test_children_come_after_each_other_and_after_their_parent() -> None:
    play = Play()

    async def parent(ctx: Context) -> None:
        play.ran.append("p")
        last = ctx.job.id
        for name in ("x", "y", "z"):
            last = ctx.enqueue(play.call(play.once, name, after=[last]))

    await play.add(play.task(parent))
    await play.drain()
    assert play.ran == ["p", "x", "y", "z"]


async def test_a_job_that_is_claimed_too_late_is_cancelled_and_never_begun() -> None:
    play = Play()
    late = await play.add(play.once, "late", expires=10)
    timely = await play.add(play.once, "timely", expires=60)
    play.clock.advance(10)
    await play.drain()
    assert play.ran == ["timely"]
    assert (await play.job(late)).reason == "expired"
    assert await play.states(late, timely) == ["cancelled", "success"]
    [attempt] = await play.history(late)
    assert attempt.started is None


async def test_the_janitor_cancels_what_nobody_claims_in_time_whatever_holds_it_back() -> None:
    play = Play()
    plain = await play.add(play.once, "p", expires=10, queue="unserved")
    delayed = await play.add(play.once, "d", expires=10, delay=60)
    first = await play.add(play.once, "f", delay=100, sequence_key="s")
    in_line = await play.add(play.once, "s", expires=10, sequence_key="s")
    linked = await play.add(play.once, "l", expires=10, after=[first])
    follower = await play.add(play.once, "x", after=[linked])
    await play.drain()
    assert await play.expire() == 0
    play.clock.advance(10)
    assert await play.expire() == 4
    assert await play.states(plain, delayed, in_line, linked) == ["cancelled"] * 4
    assert {(await play.job(job)).reason for job in (plain, delayed, in_line, linked)} == {"expired"}
    assert await play.expire() == 0
    await play.drain()
    assert await play.states(first, follower) == ["scheduled", "cancelled"]
    assert play.ran == []


async def test_many_that_are_overdue_are_cancelled_in_one_sweep() -> None:
    play = Play()
    jobs = [await play.add(play.once, "n", expires=1) for _ in range(450)]
    play.clock.advance(1)
    assert await play.expire() == 450
    assert set(await play.states(*jobs)) == {"cancelled"}


async def test_a_job_that_began_in_time_is_left_alone_also_when_it_is_retried() -> None:
    play = Play(lease_seconds=3600)
    gate = Gate()

    async def slow() -> None:
        await gate.pass_async()
        if len(await play.history(running)) == 0:
            raise ValueError("as asked")

    running = await play.add(play.task(slow, retry=Fixed(max_retries=1, wait=30)), expires=10)
    async with play.serving():
        await gate.wait_entered()
        play.clock.advance(20)
        assert await play.expire() == 0
        gate.open()
        await play.seen.wait("settled", job=running)
        assert await play.state(running) is State.RETRY
        assert await play.expire() == 0
    play.clock.advance(30)
    await play.drain()
    assert await play.outcomes(running) == ["retry", "success"]


async def test_what_was_claimed_in_time_and_given_back_does_not_expire() -> None:
    play = Play(lease_seconds=30)
    job = await play.add(play.once, "a", expires=40)
    play.faults.die_at(3, after=False)
    dying = asyncio.create_task(play.worker().run(until_idle=True))
    await play.faults.died.wait()
    dying.cancel()
    play.next_process()
    play.clock.advance(41)
    await play.reclaim()
    assert await play.expire() == 0
    await play.drain()
    assert await play.state(job) is State.SUCCESS

"""The parts by themselves: slots, timers and threads."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast.engine import surroundings
from holdfast.engine.hold import Hold, Terms
from holdfast.engine.runner import Runner
from holdfast.engine.slots import Slots
from holdfast.engine.timers import Timers
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Stop
from holdfast.model.records import Move
from holdfast.model.retry import Never
from holdfast.model.task import TaskDefinition
from tests.engine.rig import Rig


class Bench:
    """Slots without a pump: what they report is kept in a list."""

    def __init__(self, concurrency: int = 2) -> None:
        self.rig = Rig()
        self.started: list[str] = []
        self.reported: list[Move] = []
        self.changed = asyncio.Event()
        runner = Runner(self.rig.settings, None, None, lambda: None, self.rig.notices)
        self.slots = Slots(
            runner, concurrency, 0.05, self._report, lambda hold, outcome: None, lambda hold: None
        )

        async def starts(name: str) -> None:
            self.started.append(name)
            await asyncio.get_running_loop().create_future()

        def blocks(name: str) -> None:
            self.started.append(name)

        self.waiting = self.rig.task(starts, retry=Never())
        self.blocking = self.rig.task(blocks, retry=Never())

    async def hold(self, task: TaskDefinition, name: str, **record: Any) -> Hold:
        job = await self.rig.job(await self.rig.add(task, name))
        for field, value in record.items():
            setattr(job, field, value)
        job.token = 1
        hold = Hold(job, task, Terms.of(self.rig.settings.timing), surroundings.now())
        self.slots.buffer.append(hold)
        return hold

    async def reports(self, count: int) -> list[Move]:
        async with asyncio.timeout(5):
            while len(self.reported) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.reported

    def _report(self, hold: Hold, move: Move) -> None:
        self.reported.append(move)
        self.changed.set()


async def test_a_job_is_not_started_after_trust_in_its_lease_has_ended() -> None:
    bench = Bench()
    hold = await bench.hold(bench.waiting, "late")
    hold.trust_until = surroundings.now()
    bench.slots.fill()
    assert [move.reason for move in bench.reported] == ["the lease ran out before the start"]
    assert bench.reported[0].path[-1] is State.SCHEDULED
    assert not bench.slots.running


@pytest.mark.parametrize("kind", ["waiting", "blocking"])
async def test_nor_when_trust_ends_between_the_start_and_the_first_step(kind: str) -> None:
    bench = Bench()
    hold = await bench.hold(getattr(bench, kind), "late")
    hold.record.suspect = True
    bench.slots.fill()
    hold.trust_until = surroundings.now()
    bench.slots.start_recorded(hold)
    move = (await bench.reports(2))[1]
    assert not bench.started
    assert (move.reason, move.path[-1]) == ("lease lost", State.SCHEDULED)
    assert not bench.slots.running


async def test_nor_when_the_loop_was_blocked_before_the_first_step() -> None:
    bench = Bench()
    hold = await bench.hold(bench.waiting, "late")
    bench.slots.fill()
    hold.trust_until = surroundings.now()
    assert (await bench.reports(1))[0].reason == "lease lost"
    assert not bench.started


@pytest.mark.parametrize("stop", [Stop.CANCEL, Stop.SHUTDOWN, Stop.LEASE_LOST, Stop.TIMEOUT])
async def test_an_attempt_that_is_stopped_before_its_first_step_still_ends(stop: Stop) -> None:
    bench = Bench()
    hold = await bench.hold(bench.waiting, "stopped")
    bench.slots.fill()
    hold.timeout = 1.0
    bench.slots.tell(hold, stop)
    (move,) = await bench.reports(1)
    assert not bench.started
    assert not bench.slots.running
    ends = {Stop.CANCEL: State.CANCELLED, Stop.TIMEOUT: State.DLQ}
    assert move.path[-1] is ends.get(stop, State.SCHEDULED)


async def test_an_attempt_that_the_heartbeat_stopped_while_it_waited_is_not_started() -> None:
    bench = Bench()
    hold = await bench.hold(bench.waiting, "stopped")
    # The heartbeat has set this on its thread, and the loop has not come to enforcing it.
    hold.stop = Stop.LEASE_LOST
    bench.slots.fill()
    bench.slots.enforce(hold, Stop.LEASE_LOST)
    assert [move.reason for move in bench.reported] == ["lease lost"]
    assert not bench.slots.running


async def test_without_a_thread_to_run_on_an_attempt_fails_and_the_next_one_gets_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()

    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    await bench.hold(bench.blocking, "first")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        bench.slots.fill()
    assert [move.reason for move in bench.reported] == ["RuntimeError: can't start new thread"]
    await bench.hold(bench.blocking, "second")
    bench.slots.fill()
    assert (await bench.reports(2))[1].path[-1] is State.SUCCESS
    await bench.slots.close()


async def test_timeouts_of_jobs_that_have_ended_do_not_pile_up() -> None:
    expired: list[int] = []
    ended: set[int] = set()
    timers: Timers[int] = Timers(expired.append, ended.__contains__)
    far = asyncio.get_running_loop().time() + 3600
    for number in range(10_000):
        timers.at(far, number)
        ended.add(number)
    assert len(timers) <= 512
    timers.at(0, 10_000)
    timers.at(0, 10_001)
    ended.add(10_001)
    await asyncio.sleep(0.001)
    assert expired == [10_000]
    timers.clear()

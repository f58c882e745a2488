"""A consumer that ends at any of its steps: the next one goes on, none is lost, each first comes in order."""

import asyncio
from itertools import count
from typing import Any

import pytest

from holdfast import Context, Event
from tests.engine.consuming import Desk, of
from tests.engine.faulty import Faults, FaultyStore

NAMES = ["a1", "b1", "a2", "-1", "a3", "b2", "c1"]
STEPS = ("get", "write", "read", "last")


class Crash(Faults):
    """Ends at one step, before it is done or behind it: neither that nor any other comes back."""

    def __init__(self, step: int, *, behind: bool) -> None:
        super().__init__()
        self._left = step
        self._behind = behind

    async def apply(self, session: str, name: str, call: Any, argument: Any) -> Any:
        if name not in STEPS:
            return await call()
        self._left -= 1
        if self._left == 0 and self._behind:
            await call()
        if self._left <= 0:
            self.died.set()
            await asyncio.get_running_loop().create_future()
        return await call()


async def crashes(desk: Desk, step: int, *, behind: bool) -> bool:
    """Has a consumer work until it crashes, and others until all is done; whether it did crash."""
    crash = Crash(step, behind=behind)
    desk.rig.store = FaultyStore(desk.rig.memory, crash)
    await desk.emit(*NAMES)
    working = asyncio.create_task(work(desk, 3))
    dying = asyncio.create_task(crash.died.wait())
    await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
    working.cancel()
    dying.cancel()
    await asyncio.wait([working, dying])
    desk.rig.next_process()
    await work(desk, 6)
    return crash.died.is_set()


async def work(desk: Desk, times: int) -> None:
    for _ in range(times):
        await desk.later()


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_none_is_lost_and_none_overtaken_wherever_a_consumer_ends(behind: bool) -> None:
    for step in count(1):
        desk = Desk()
        desk.fails |= {"a1": 2, "b2": 1, "-1": 1}
        is_over = await crashes(desk, step, behind=behind)
        first = list(dict.fromkeys(desk.done))
        assert sorted(first) == sorted(NAMES), step
        for aggregate in "abc":
            assert of(aggregate, first) == sorted(of(aggregate, first)), step
        assert await desk.waiting() == []
        if not is_over:
            assert len(desk.done) == len(NAMES), "without a crash each comes once"
            break


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_what_is_emitted_with_the_progress_is_there_once_wherever_a_consumer_ends(behind: bool) -> None:
    for step in count(1):

        async def handle(ctx: Context, event: Event[str]) -> None:
            if event.data == "a1" and ctx.run == 1:
                raise ValueError("at first")
            ctx.emit(Event(topic="done", type="t", data=event.data, aggregate=event.aggregate))

        desk = Desk(handler=handle)
        is_over = await crashes(desk, step, behind=behind)
        emitted = [event.data for event in await desk.events.list("done")]
        assert sorted(emitted) == sorted(NAMES), step
        for aggregate in "abc":
            assert of(aggregate, emitted) == sorted(of(aggregate, emitted)), step
        if not is_over:
            break

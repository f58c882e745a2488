"""Operators replay and skip what failed, at any moment of a consumer's work: none is lost, none overtaken."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from holdfast import Event
from holdfast.model.errors import GroupGone
from tests.engine.consuming import GROUP, TOPIC, Desk, of
from tests.engine.faulty import Faults, FaultyStore

Meddle = Callable[[], Awaitable[int]]
NAMES = ["a1", "b1", "a2", "-1", "a3", "b2"]
STEPS = ("get", "write", "read", "last")


class Between(Faults):
    """Calls somebody right before or behind one of the consumer's calls to the store."""

    def __init__(self, step: int, *, behind: bool, meddle: Meddle) -> None:
        super().__init__()
        self._left = step
        self._behind = behind
        self._meddle = meddle
        self.answer: int | None = None

    async def apply(self, session: str, name: str, call: Any, argument: Any) -> Any:
        if name not in STEPS:
            return await call()
        self._left -= 1
        if self._left == 0 and not self._behind:
            self.answer = await self._meddle()
        answer = await call()
        if self._left == 0 and self._behind:
            self.answer = await self._meddle()
        return answer


async def parked(**fails: float) -> Desk:
    """A desk with some that have used up their attempts."""
    desk = Desk()
    desk.fails |= fails or {"a1": 4}
    await desk.emit(*NAMES)
    for _ in range(4):
        await desk.later()
    return desk


async def test_what_is_parked_is_tried_with_all_its_attempts_when_replayed() -> None:
    desk = await parked(a1=6)
    assert await desk.waiting() == [("a", 4, True)]
    assert await desk.events.replay(GROUP) == 1
    await desk.drain()
    assert await desk.waiting() == [("a", 1, False)]
    await desk.later()
    await desk.later()
    assert of("a", desk.done) == ["a1", "a2", "a3"]
    assert await desk.waiting() == []


async def test_what_is_skipped_is_left_out_and_the_rest_follows_in_order() -> None:
    desk = await parked(a1=99)
    told = list(desk.told)
    assert await desk.events.skip(GROUP, TOPIC, aggregate="a") == 1
    await desk.drain()
    assert of("a", desk.done) == ["a2", "a3"]
    assert desk.told[len(told) :] == ["a2", "a3"]
    assert await desk.waiting() == []


async def test_one_event_one_aggregate_or_all_of_a_group_are_meant() -> None:
    desk = Desk(retry=None)
    desk.fails |= {"a1": 99, "b1": 99, "-1": 99, "-2": 99}
    await desk.emit("a1", "b1", "-1", "-2", "a2")
    for _ in range(7):
        await desk.later(100_000)
    heads = {each.aggregate: each.event for each in (await desk.info()).waiting}
    assert await desk.events.replay(GROUP, aggregate="nobody") == 0
    assert await desk.events.replay(GROUP, event="nothing") == 0
    assert await desk.events.skip(GROUP, event=heads["a"], aggregate="b") == 0
    desk.told.clear()
    assert await desk.events.replay(GROUP, event=heads["a"]) == 1
    await desk.drain()
    assert desk.told == ["a1"]
    assert await desk.events.replay(GROUP, aggregate="b") == 1
    await desk.drain()
    assert desk.told == ["a1", "b1"]
    assert await desk.events.skip(GROUP) == 4
    await desk.drain()
    assert desk.told == ["a1", "b1", "a2"]
    assert await desk.waiting() == []


async def test_an_event_in_the_midst_of_its_lane_is_not_meant_before_it_is_at_the_head() -> None:
    desk = await parked(a1=99)
    [follower] = [event for event in await desk.events.list(TOPIC) if event.data == "a2"]
    assert await desk.events.skip(GROUP, event=follower.id) == 0


async def test_a_group_that_never_consumed_cannot_be_steered() -> None:
    desk = await parked()
    with pytest.raises(GroupGone, match="nobody"):
        await desk.events.replay("nobody")
    with pytest.raises(GroupGone, match="billing"):
        await desk.events.skip(GROUP, "elsewhere")


async def test_a_group_that_is_forgotten_begins_anew() -> None:
    desk = await parked(a1=99)
    assert await desk.events.forget(GROUP, TOPIC)
    assert not await desk.events.forget(GROUP, TOPIC)
    assert await desk.events.groups() == []
    desk.done.clear()
    desk.fails.clear()
    await desk.drain()
    assert desk.done == NAMES


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("times", [2, 99], ids=["fails twice", "fails for ever"])
@pytest.mark.parametrize("way", ["skip", "replay"])
async def test_an_operator_between_any_two_steps_of_a_consumer_loses_and_overtakes_nothing(
    way: str, times: float, behind: bool
) -> None:
    answers: set[int | None] = set()
    for step in count(1):
        desk = Desk()
        desk.fails["a1"] = times

        async def meddle(desk: Desk = desk) -> int:
            return await getattr(desk.events, way)(GROUP) if await desk.events.groups() else 0

        meddler = Between(step, behind=behind, meddle=meddle)
        desk.rig.store = FaultyStore(desk.rig.memory, meddler)
        await desk.emit(*NAMES)
        for _ in range(5):
            await desk.later()
        answers.add(meddler.answer)
        desk.rig.next_process()
        await desk.events.skip(GROUP)
        await desk.drain()
        check(desk)
        assert await desk.waiting() == []
        if meddler.answer is None:
            break
    assert answers == {None, 0, 1}, "some were too early, some hit, some came too late"


def check(desk: Desk) -> None:
    """Each that succeeds does so once, in the order of its aggregate; only the one that fails may not."""
    rest = [name for name in desk.done if name != "a1"]
    assert sorted(rest) == sorted(set(NAMES) - {"a1"})
    for aggregate in "ab":
        assert of(aggregate, desk.done) == sorted(set(of(aggregate, desk.done)))
    last = max((place for place, name in enumerate(desk.told) if name == "a1"), default=-1)
    assert last < desk.told.index("a2"), "it is never told behind one that follows it"


async def test_a_replay_while_the_handler_is_at_another_event_is_heeded() -> None:
    desk = await parked(a1=4)

    async def handle(event: Event[str]) -> None:
        if event.data == "b3":
            assert await desk.events.replay(GROUP) == 1
        await desk.handle(event)

    other = Desk(handler=handle)
    other.rig = desk.rig
    await desk.emit("b3", "b4")
    await other.drain()
    await other.drain()
    assert of("a", desk.done) == ["a1", "a2", "a3"]
    assert of("b", desk.done) == ["b1", "b2", "b3", "b4"]

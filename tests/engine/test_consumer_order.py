"""In order for each aggregate, whatever fails: one that fails holds up its own, and nobody else."""

import random

import pytest

from holdfast.engine.janitor import Janitor
from holdfast.model.progress import MOST_WAITING
from holdfast.model.retry import Never
from tests.engine.consuming import GROUP, TOPIC, WAIT, Desk, of


async def test_events_are_told_in_their_order_and_the_offset_is_stored() -> None:
    desk = Desk()
    await desk.emit("a1", "b1", "-1", "a2")
    await desk.drain()
    assert desk.done == ["a1", "b1", "-1", "a2"]
    assert ((await desk.info()).offset, (await desk.info()).last) == (4, 4)
    await desk.drain()
    assert desk.told == ["a1", "b1", "-1", "a2"], "none is told again"


async def test_an_event_that_fails_holds_up_its_aggregate_only() -> None:
    desk = Desk()
    desk.fails["a1"] = 1
    await desk.emit("a1", "b1", "a2", "-1", "b2", "a3")
    await desk.drain()
    assert desk.done == ["b1", "-1", "b2"]
    assert await desk.waiting() == [("a", 1, False)]
    await desk.drain()
    assert desk.told.count("a1") == 1, "not before its time"
    await desk.later()
    assert desk.done == ["b1", "-1", "b2", "a1", "a2", "a3"]
    assert await desk.waiting() == []


async def test_what_comes_while_an_aggregate_waits_follows_in_order_once_it_succeeds() -> None:
    desk = Desk()
    desk.fails["a1"] = 2
    await desk.emit("a1")
    await desk.drain()
    await desk.emit("a2", "b1")
    await desk.drain()
    await desk.later()
    assert await desk.waiting() == [("a", 2, False)]
    await desk.emit("a3", "b2")
    await desk.later()
    assert desk.done == ["b1", "b2", "a1", "a2", "a3"]
    await desk.emit("a4")
    await desk.drain()
    assert desk.done[-1] == "a4", "the aggregate goes on as any other"


async def test_one_that_follows_may_fail_itself_and_has_all_its_attempts() -> None:
    desk = Desk()
    desk.fails |= {"a1": 2, "a2": 3}
    await desk.emit("a1", "a2", "a3")
    for _ in range(6):
        await desk.later()
    assert desk.told == ["a1"] * 3 + ["a2"] * 4 + ["a3"]
    assert desk.done == ["a1", "a2", "a3"]


async def test_many_aggregates_that_fail_at_once_each_keep_their_order() -> None:
    draw = random.Random(5)
    desk = Desk()
    names = [f"{aggregate}{number}" for number in range(10) for aggregate in "abcdef"]
    desk.fails |= {name: draw.randrange(4) for name in draw.sample(names, 30)}
    for start in range(0, len(names), 12):
        await desk.emit(*names[start : start + 12])
        await desk.later()
    for _ in range(40):
        await desk.later()
    assert await desk.waiting() == []
    for aggregate in "abcdef":
        assert of(aggregate, desk.done) == of(aggregate, names)


async def test_one_whose_attempts_are_used_up_is_parked_and_no_longer_tried() -> None:
    desk = Desk()
    desk.fails["a1"] = 99
    await desk.emit("a1", "a2", "b1")
    for _ in range(10):
        await desk.later(1000)
    assert desk.told.count("a1") == 4
    assert await desk.waiting() == [("a", 4, True)]
    [waiting] = (await desk.info()).waiting
    assert waiting.reason == "Boom: a1"
    assert desk.done == ["b1"]


async def test_events_without_an_aggregate_hold_up_nobody_and_are_each_tried_again() -> None:
    desk = Desk()
    desk.fails |= {"-1": 1, "-2": 99}
    await desk.emit("-1", "-2", "-3")
    await desk.drain()
    assert desk.done == ["-3"]
    assert await desk.waiting() == [(None, 1, False), (None, 1, False)]
    await desk.later()
    assert desk.done == ["-3", "-1"]
    await desk.later()
    await desk.later()
    assert await desk.waiting() == [(None, 4, True)]
    assert desk.told.count("-3") == 1


async def test_events_of_other_topics_are_not_told_and_no_part_of_a_lane() -> None:
    desk = Desk()
    desk.fails["a1"] = 1
    await desk.emit("a1")
    await desk.emit("a2", topic="others")
    await desk.emit("a3")
    await desk.drain()
    await desk.later()
    assert desk.done == ["a1", "a3"]


async def test_another_holder_of_the_lock_goes_on_where_the_last_one_stood() -> None:
    desk = Desk()
    desk.fails |= {"a1": 2, "b2": 1}
    await desk.emit("a1", "b1", "b2", "c1")
    await desk.drain()
    await desk.emit("a2", "b3", "c2")
    for _ in range(4):
        await desk.later()
    assert sorted(desk.done) == ["a1", "a2", "b1", "b2", "b3", "c1", "c2"]
    for aggregate in "abc":
        assert of(aggregate, desk.done) == sorted(of(aggregate, desk.done))


async def test_with_too_many_aggregates_waiting_the_group_goes_on_only_with_them() -> None:
    desk = Desk()
    waiting = [f"-{number}" for number in range(MOST_WAITING)]
    desk.fails |= dict.fromkeys(waiting, 1)
    await desk.emit(*waiting, "a1", "b1")
    await desk.drain()
    assert desk.done == []
    assert len((await desk.info()).waiting) == MOST_WAITING
    assert len(desk.rig.seen.of("events_stand_still")) == 1
    await desk.drain()
    assert desk.told == waiting, "nothing else is told"
    await desk.later()
    assert desk.done == [*waiting, "a1", "b1"]
    assert await desk.waiting() == []


async def test_with_too_many_parked_the_group_stands_until_one_is_skipped() -> None:
    desk = Desk(retry=None)
    poison = [f"-{number}" for number in range(MOST_WAITING)]
    desk.fails |= dict.fromkeys(poison, 99)
    await desk.emit(*poison, "a1")
    for _ in range(7):
        await desk.later(100_000)
    assert desk.done == []
    assert all(is_parked for _, _, is_parked in await desk.waiting())
    [head, *_] = (await desk.info()).waiting
    assert await desk.events.skip("billing", TOPIC, event=head.event) == 1
    await desk.drain()
    assert desk.done == ["a1"]
    assert len(await desk.waiting()) == MOST_WAITING - 1


async def test_a_lane_reaches_far_behind_many_events_of_others() -> None:
    desk = Desk()
    desk.fails["a1"] = 1
    others = [f"b{number}" for number in range(450)]
    await desk.emit("a1", *others, "a2")
    await desk.drain()
    assert desk.done == others
    await desk.later()
    assert of("a", desk.done) == ["a1", "a2"]


@pytest.mark.parametrize("seconds", [0, WAIT - 1])
async def test_an_aggregate_is_not_tried_before_its_time(seconds: float) -> None:
    desk = Desk()
    desk.fails["a1"] = 1
    await desk.emit("a1")
    await desk.drain()
    await desk.later(seconds)
    assert desk.told == ["a1"]


async def test_events_are_kept_as_long_as_a_group_has_not_passed_them_or_has_them_waiting() -> None:
    desk = Desk(retry=Never())
    desk.fails["a1"] = 1
    await desk.emit("b1", "a1", "a2")
    await desk.emit("c1", topic="nobodys")
    await desk.drain()
    await desk.emit("b2")
    session = await desk.rig.memory.connect("default")
    janitor = Janitor(session, "janitor", desk.rig.settings, desk.rig.notices)
    desk.rig.clock.advance(desk.rig.settings.event_retention_seconds + 1)
    await janitor.prune_events()
    assert [event.data for event in await desk.events.list()] == ["a1", "a2", "b2"]
    await desk.events.replay(GROUP)
    await desk.drain()
    assert desk.done == ["b1", "b2", "a1", "a2"]
    await janitor.prune_events()
    assert await desk.events.list() == []

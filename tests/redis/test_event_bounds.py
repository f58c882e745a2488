"""Events in Redis are found without a search, and all that is kept of them is gone when they are pruned."""

import secrets
from collections.abc import Coroutine
from typing import Any

import pytest
import redis

from holdfast.stores.redis import events as redis_events
from holdfast.stores.redis.address import parse
from holdfast.stores.redis.database import Database
from holdfast.testing.conformance.events import new_event
from tests.redis.soundness import check_sound
from tests.redis.support import opened, told
from tests.redis.test_events import ANY_AGE, ids, run


async def used(url: str) -> dict[bytes, int]:
    """The memory of each key of events."""
    keys = [key for key in await told(url, "KEYS", "*") if key.partition(b"}:")[2].startswith(b"e")]
    return {key: await told(url, "MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys}


class Looked:
    """How many entries the server was asked to look at, by the end of the key: what MONITOR tells."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, call: Coroutine[Any, Any, Any]) -> tuple[Any, dict[str, int]]:
        seen: dict[str, int] = {}
        with redis.Redis.from_url(self._url) as client, client.monitor() as monitor:
            answer = await call
            end = f"end {secrets.token_hex(4)}"
            await told(self._url, "ECHO", end)
            for line in monitor.listen():
                if end in line["command"]:
                    return answer, seen
                words = line["command"].split(" ")
                if line["client_type"] == "lua" and words[0] == "XRANGE":
                    name = words[1].partition("}:")[2]
                    seen[name] = seen.get(name, 0) + (int(words[-1]) if words[-2] == "COUNT" else 1)
        raise AssertionError("the server has hung up")


def test_memory_is_given_back_however_many_topics_and_aggregates_there_were(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_events, "KEPT_FLOORS", 20)

    async def scenario() -> None:
        async with opened(redis_url) as session:
            sizes: list[dict[bytes, int]] = []
            for turn in range(10):
                for part in range(5):
                    lines = [(f"topic-{turn}-{n % 50}", f"line-{turn}-{part}-{n}") for n in range(200)]
                    await session.events.append([new_event(*line, data=bytes(100)) for line in lines])
                    await session.events.append([new_event("always", f"line-{turn}")])
                check_sound(redis_url)
                assert await session.events.prune(ANY_AGE, {}, 10_000) == 1_005
                assert await session.events.read(0, 9) == await session.events.read(0, 9, topic="always")
                sizes.append(await used(redis_url))
            assert {key.partition(b"}:")[2] for key in sizes[-1]} == {b"e:n", b"e:f"}
            assert sum(sizes[-1].values()) <= sum(sizes[0].values()) + 100
            assert await session.events.last() == 10 * 1_005

    run(scenario)


def test_memory_is_bounded_while_some_events_are_kept(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            sizes: list[int] = []
            for turn in range(12):
                await session.events.append(
                    [new_event(f"topic-{n % 7}", f"line-{turn}-{n}", data=bytes(100)) for n in range(1_000)]
                )
                if turn:
                    assert await session.events.prune(ANY_AGE, {}, 1_000) == 1_000
                    sizes.append(sum((await used(redis_url)).values()))
            check_sound(redis_url)
            assert len(await ids(session)) == 1_000
            assert max(sizes[1:]) < 1.2 * sizes[0]

    run(scenario)


def test_a_topic_begins_above_what_was_removed_though_it_was_itself_forgotten(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_events, "KEPT_FLOORS", 2)

    async def scenario() -> None:
        async with opened(redis_url) as session:
            for topic, count in (("a", 3), ("b", 7), ("c", 5), ("d", 9)):
                await session.events.append([new_event(topic, "x") for _ in range(count)])
            await session.events.prune(ANY_AGE, {}, 100)
            for topic in "abcde":
                await session.events.append([new_event(topic, "y")])
            stored = (await session.events.read(0, 9)).records
            assert {event.topic: event.version for event in stored} == {
                "a": 6,  # the two lowest, 3 and 5, are known as one
                "b": 8,
                "c": 6,
                "d": 10,
                "e": 6,
            }

    run(scenario)


def test_a_topic_among_a_hundred_thousand_events_is_read_without_looking_at_others(redis_url: str) -> None:
    async def scenario() -> None:
        looked = Looked(redis_url)
        async with opened(redis_url) as session:
            rare: list[str] = []
            for turn in range(20):
                batch = [new_event(f"busy-{n % 3}", f"line-{n}") for n in range(4_999)]
                batch.insert(turn * 100, new_event("rare"))
                rare.append(batch[turn * 100].id)
                await session.events.append(batch)
            page, seen = await looked(session.events.read(0, 100, topic="rare"))
            assert [event.id for event in page.records] == rare
            assert page.upto == await session.events.last() == 100_000
            assert seen == {"e:s:rare": 32}
            page, seen = await looked(session.events.read(99_000, 10, topic="busy-1"))
            assert len(page.records) == 10
            assert seen == {"e:s:busy-1": 10}
            page, seen = await looked(session.events.read(50_000, 10))
            assert [event.position for event in page.records] == list(range(50_001, 50_011))
            assert seen.pop("e") == 10
            assert sum(seen.values()) == 10
            page, seen = await looked(session.events.read(0, 5, topic="busy-0", aggregate="line-3"))
            assert [event.version for event in page.records] == [1, 2, 3, 4, 5]
            assert seen["e:s:busy-0"] < 7_000, "it ends where the fifth was found"

    run(scenario)


def test_those_who_look_for_a_rare_aggregate_are_told_how_far_was_looked(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_events, "STEP", 10)
    monkeypatch.setattr(redis_events, "MOST_LOOKED_AT", 30)

    async def scenario() -> None:
        async with opened(redis_url) as session:
            await session.events.append([new_event("t", "a" if n in {5, 65} else "b") for n in range(1, 100)])
            after, pages = 0, []
            while after < 99:
                page = await session.events.read(after, 5, topic="t", aggregate="a")
                after = page.upto
                pages.append(([event.position for event in page.records], after))
            assert pages == [([5], 30), ([], 60), ([65], 90), ([], 99)]
            assert len(await ids(session, topic="t", aggregate="b")) < 97
            assert len(await ids(session, topic="t")) == 99, "without an aggregate all are read"

    run(scenario)


def test_large_events_are_read_in_several_answers(redis_url: str) -> None:
    async def scenario() -> None:
        database = Database(parse(redis_url), "large")
        async with opened(redis_url, "large") as session:
            large = [new_event("t", data=bytes([n]) * 200_000) for n in range(70)]
            await session.events.append(large)
            for which in ({}, {"topic": "t"}):
                page = await session.events.read(0, 100, **which)
                assert [event.data for event in page.records] == [event.data for event in large]
                assert page.upto == 70
                going_on, _, *parts = await database.run(
                    "event_read", 0, 100, redis_events.STEP, len(which), which.get("topic", ""), 0, ""
                )
                assert (going_on, len(parts) // 3) == (b"32", 32)
        await database.close()

    run(scenario)


def test_pruning_does_not_look_at_events_that_nobody_has_passed(redis_url: str) -> None:
    async def scenario() -> None:
        looked = Looked(redis_url)
        async with opened(redis_url) as session:
            await session.events.append([new_event(f"slow-{n % 5}", "a") for n in range(5_000)])
            await session.events.append([new_event(f"fast-{n % 200}", f"a{n}") for n in range(1_000)])
            stays = {f"slow-{n}": 0 for n in range(5)}
            gone, seen = await looked(session.events.prune(ANY_AGE, stays, 900))
            assert (gone, seen["e"]) == (900, redis_events.STEP)
            check_sound(redis_url)
            assert await session.events.prune(ANY_AGE, {**stays, "fast-199": 0}, 900) == 100 - 5 + 4
            assert await session.events.prune(ANY_AGE, {**stays, "slow-0": 4}, 900) == 2
            assert await session.events.prune(ANY_AGE, {**stays, "slow-0": 4}, 900) == 0
            check_sound(redis_url)
            assert await session.events.prune(ANY_AGE, {}, 10_000) == 4_999
            assert await ids(session) == []

    run(scenario)

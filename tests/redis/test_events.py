"""Events in Redis: found without a search, whole when memory is short, and gone when they are pruned."""

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis

from holdfast.model.errors import OutcomeUnknown, StoreFull
from holdfast.model.events import NewEvent
from holdfast.model.records import LockWish, Query, Tick, Verdict
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.stores.memory import MemoryStore
from holdfast.stores.redis import events as redis_events
from holdfast.stores.redis.scripts import script
from holdfast.stores.redis.store import RedisSession
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import LONG, ended, new_job
from holdfast.testing.conformance.events import new_event
from holdfast.testing.conformance.schedules import write
from tests.redis.proxy import Point, Proxy
from tests.redis.soundness import check_sound
from tests.redis.support import ANN, claiming, moving, opened, told
from tests.redis.test_faults import POINTS, patience, within
from tests.servers.redis import Redis

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED
FOR_EVER = -SECOND
"""An age that even the youngest event has."""


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def ids(session: RedisSession, **which: Any) -> list[str]:
    return [event.id for event in (await session.events.read(0, 10_000, **which)).records]


async def contents(url: str) -> dict[bytes, Any]:
    """Everything that is stored; a set is dumped in any order."""
    found: dict[bytes, Any] = {}
    for key in await told(url, "KEYS", "*"):
        is_set = await told(url, "TYPE", key) == b"set"
        found[key] = sorted(await told(url, "SMEMBERS", key)) if is_set else await told(url, "DUMP", key)
    return found


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
                assert await session.events.prune(FOR_EVER, {}, 10_000) == 1_005
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
                    assert await session.events.prune(FOR_EVER, {}, 1_000) == 1_000
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
            await session.events.prune(FOR_EVER, {}, 100)
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


def test_when_memory_is_short_nothing_is_appended_and_work_under_way_tells_its_events(
    private_redis: Redis,
) -> None:
    url = private_redis.url

    async def scenario() -> None:
        async with opened(url, "full") as session:
            events = session.events
            kept = [new_event("old", f"line-{n}") for n in range(50)]
            await events.append(kept, [new_job()])
            await session.schedules.write([write()])
            token = (await session.locks.acquire(LockWish(name="l", owner=ANN, ttl=LONG))).token
            assert token is not None
            term = Term(lock="l", owner=ANN, token=token)
            [job] = (await session.jobs.tick(claiming())).claimed
            await told(url, "CONFIG", "SET", "maxmemory", "1")
            before = await contents(url)
            new = [new_event("new", "a"), new_event("old", "b")]
            for jobs in ([], [new_job()], [new_job(key="k", key_ttl=LONG), new_job(delay=LONG)]):
                with pytest.raises(StoreFull, match="maxmemory"):
                    await events.append(new, jobs)
                with pytest.raises(StoreFull, match="maxmemory"):
                    await session.schedules.write(
                        [write(version=1, jobs=tuple(jobs), events=tuple(new))], term
                    )
            assert await contents(url) == before
            assert await events.append(kept) == [], "what is stored already needs no room"
            assert await session.schedules.write([write(version=1)], term) == [ACCEPTED]
            done = new_event("done", "a")
            assert (await session.jobs.tick(moving(2, ended(job, events=(done,))))).verdicts == [ACCEPTED]
            assert await ids(session, topic="done") == [done.id]
            check_sound(url)
            assert await events.prune(FOR_EVER, {}, 100) == 51
            await told(url, "CONFIG", "SET", "maxmemory", "0")
            await events.append(new)
            assert await ids(session) == [event.id for event in new]
        check_sound(url)

    run(scenario)


@pytest.mark.parametrize("point", POINTS)
def test_an_append_whose_answer_was_lost_stores_once_when_it_is_repeated(
    redis_url: str, point: Point
) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with (
            Proxy(redis_url) as proxy,
            opened(redis_url, name) as plain,
            opened(proxy.url + patience(point), name) as bare,
        ):
            await bare.events.append([new_event()])
            told_events, job = [new_event(aggregate="a"), new_event(aggregate="a")], new_job()
            proxy.lose(script("append").sha, point)
            with pytest.raises(OutcomeUnknown):
                await bare.events.append(told_events, [job])
            is_stored = point != "before"
            assert await plain.events.last() == (3 if is_stored else 1)
            [again] = await bare.events.append(told_events, [job])
            assert again.created is not is_stored
            stored = (await plain.events.read(1, 9)).records
            assert [(event.id, event.position, event.version) for event in stored] == [
                (told_events[0].id, 2, 1),
                (told_events[1].id, 3, 2),
            ]
            assert len(await plain.jobs.find(Query())) == 1

    within(20, scenario)


@pytest.mark.parametrize("point", POINTS)
def test_a_tick_with_events_whose_answer_was_lost_appends_once_when_it_is_repeated(
    redis_url: str, point: Point
) -> None:
    async def scenario() -> None:
        name = secrets.token_hex(4)
        async with (
            Proxy(redis_url) as proxy,
            opened(redis_url, name) as plain,
            opened(proxy.url + patience(point), name) as bare,
        ):
            await bare.jobs.add([new_job(), new_job()])
            held = (await bare.jobs.tick(claiming(limit=2))).claimed
            new = [new_event(aggregate="a") for _ in held]
            moves = [ended(job, events=(event,)) for job, event in zip(held, new, strict=True)]
            await bare.events.append([first := new_event()])
            proxy.lose(script("tick_events").sha, point)
            with pytest.raises(OutcomeUnknown):
                await bare.jobs.tick(Tick(worker=ANN, seq=2, moves=moves))
            ticked = await bare.jobs.tick(Tick(worker=ANN, seq=2, moves=moves, repeat=True))
            assert ticked.verdicts == [ACCEPTED, ACCEPTED]
            assert await ids(plain) == [first.id, *(event.id for event in new)]
        check_sound(redis_url)

    within(20, scenario)


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
        async with opened(redis_url) as session:
            large = [new_event("t", data=bytes([n]) * 200_000) for n in range(70)]
            await session.events.append(large)
            for which in ({}, {"topic": "t"}):
                page = await session.events.read(0, 100, **which)
                assert [event.data for event in page.records] == [event.data for event in large]
                assert page.upto == 70

    run(scenario)


def test_pruning_does_not_look_at_events_that_nobody_has_passed(redis_url: str) -> None:
    async def scenario() -> None:
        looked = Looked(redis_url)
        async with opened(redis_url) as session:
            await session.events.append([new_event(f"slow-{n % 5}", "a") for n in range(5_000)])
            await session.events.append([new_event(f"fast-{n % 200}", f"a{n}") for n in range(1_000)])
            stays = {f"slow-{n}": 0 for n in range(5)}
            gone, seen = await looked(session.events.prune(FOR_EVER, stays, 900))
            assert (gone, seen["e"]) == (900, redis_events.STEP)
            check_sound(redis_url)
            assert await session.events.prune(FOR_EVER, {**stays, "fast-199": 0}, 900) == 100 - 5 + 4
            assert await session.events.prune(FOR_EVER, {**stays, "slow-0": 4}, 900) == 2
            assert await session.events.prune(FOR_EVER, {**stays, "slow-0": 4}, 900) == 0
            check_sound(redis_url)
            assert await session.events.prune(FOR_EVER, {}, 10_000) == 4_999
            assert await ids(session) == []

    run(scenario)


def test_positions_of_any_size_are_taken(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url, "large") as session:
            start = 2**52
            await told(redis_url, "HSET", "{holdfast:large}:e:n", "p", str(start))
            await session.events.append([new_event(aggregate="a"), new_event(aggregate="a")])
            page = await session.events.read(start + 1, 9)
            assert ([event.position for event in page.records], page.upto) == ([start + 2], start + 2)
            for after in (2**53 + 1, 2**63, 2**70):
                page = await session.events.read(after, 9)
                assert (page.records, page.upto) == ([], after)
            page = await session.events.read(-5, 1)
            assert page.upto == start + 1
            assert await session.events.prune(FOR_EVER, {"orders": start + 1}, 9) == 1
            assert await session.events.prune(FOR_EVER, {"orders": 2**70}, 9) == 1
            assert await session.events.last() == start + 2

    run(scenario)


class Pair:
    """The memory store and Redis, asked the same, with the same answers."""

    def __init__(self, memory: Any, session: RedisSession) -> None:
        self._sessions = (memory, session)

    async def __call__(self, part: str, call: str, *args: Any, **named: Any) -> Any:
        first, second = [await getattr(getattr(each, part), call)(*args, **named) for each in self._sessions]
        assert first == second, (call, args)
        return second


def some_events(chance: random.Random) -> tuple[NewEvent, ...]:
    lines = [("a", None), ("a", ""), ("a", "x"), ("a", "y"), ("", "x"), ("b", "x"), ("ax", "")]
    return tuple(
        new_event(*chance.choice(lines), id=f"e{chance.randint(0, 200)}", data=chance.randbytes(3))
        for _ in range(chance.randint(0, 4))
    )


@pytest.mark.parametrize("seed", range(5))
def test_any_sequence_is_answered_as_the_memory_store_does(redis_url: str, seed: int) -> None:
    chance = random.Random(seed)
    clock = ManualClock()

    async def look(both: Pair) -> None:
        last = await both("events", "last")
        after, limit = chance.randint(0, last + 2), chance.randint(1, 9)
        for which in (
            {},
            {"topic": "a"},
            {"topic": ""},
            {"topic": "a", "aggregate": chance.choice(["", "x"])},
        ):
            await both("events", "read", after, limit, **which)
            await both("events", "read", 0, 1_000, **which)

    async def step(both: Pair) -> None:
        new = some_events(chance)
        match chance.randint(0, 5):
            case 0:
                passed = {topic: chance.randint(0, 300) for topic in ("a", "b") if chance.random() < 0.5}
                await both("events", "prune", chance.randint(0, 5), passed, chance.randint(1, 20))
            case 1:
                clock.advance(1e-6 * chance.randint(1, 3))
            case 2:
                held = (await both("jobs", "tick", claiming(chance.randint(1, 10**9)))).claimed
                for job in held:
                    move = ended(job, events=new, children=(new_job(id=f"j{chance.randint(0, 50)}"),))
                    for _ in range(2):
                        await both("jobs", "tick", moving(chance.randint(1, 10**9), move))
            case 3:
                version = chance.randint(0, 3)
                await both("schedules", "write", [write(version=version, events=new)])
            case _:
                jobs = [new_job(id=f"j{chance.randint(0, 50)}") for _ in range(chance.randint(0, 1))]
                await both("events", "append", new, jobs)

    async def scenario() -> None:
        memory = await MemoryStore(clock=clock).connect("n")
        async with opened(redis_url, clock=clock) as session:
            both = Pair(memory, session)
            [known] = await session.fleet.workers()
            await memory.fleet.register(known, LONG)
            for _ in range(150):
                await step(both)
                await look(both)
            check_sound(redis_url)
        await memory.close()

    run(scenario)

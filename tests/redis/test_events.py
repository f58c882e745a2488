"""Events in Redis: whole when memory is short, once though answers are lost, as the memory store has them."""

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.model.errors import OutcomeUnknown, StoreFull
from holdfast.model.events import NewEvent
from holdfast.model.records import LockWish, Query, Tick, Verdict
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.stores.marks import process_mark
from holdfast.stores.memory import MemoryStore
from holdfast.stores.redis.scripts import script
from holdfast.stores.redis.store import RedisSession
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import LONG, ended, new_job
from holdfast.testing.conformance.events import new_event
from holdfast.testing.conformance.schedules import write
from tests.redis.proxy import Point
from tests.redis.soundness import check_sound
from tests.redis.support import ANN, claiming, moving, opened, told
from tests.redis.test_faults import POINTS, losing, within
from tests.redis.test_wakeups import SOON, listening
from tests.servers.redis import Redis

ACCEPTED = Verdict.ACCEPTED
ANY_AGE = -SECOND
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
            assert await events.prune(ANY_AGE, {}, 100) == 51
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
        async with losing(redis_url, point) as (proxy, plain, bare):
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
        async with losing(redis_url, point) as (proxy, plain, bare):
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
            assert await session.events.prune(ANY_AGE, {"orders": start + 1}, 9) == 1
            assert await session.events.prune(ANY_AGE, {"orders": 2**70}, 9) == 1
            assert await session.events.last() == start + 2

    run(scenario)


def test_no_position_is_given_twice_though_somebody_has_deleted_the_end(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url, "damaged") as session:
            await session.events.append([new_event(), new_event()])
            await told(redis_url, "DEL", "{holdfast:damaged}:e:n")
            assert await session.events.last() == 2
            assert (await session.events.read(0, 9)).upto == 2
            await session.events.append([new_event()])
            page = await session.events.read(0, 9)
            assert [event.position for event in page.records] == [1, 2, 3]
            assert page.upto == await session.events.last() == 3

    run(scenario)


def test_those_who_listen_are_told_of_events_that_are_written_under_a_lock(redis_url: str) -> None:
    name = secrets.token_hex(4)

    async def scenario() -> None:
        async with opened(redis_url, name) as session, listening(redis_url, name) as heard:
            token = (await session.locks.acquire(LockWish(name="l", owner=ANN, ttl=LONG))).token
            assert token is not None
            term = Term(lock="l", owner=ANN, token=token)
            heard.messages.clear()
            heard.came.clear()
            assert await session.schedules.write([write(events=(new_event(),))], term) == [ACCEPTED]
            async with asyncio.timeout(SOON):
                await heard.came.wait()
            assert [text for _, text in heard.messages] == [process_mark().encode()]

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

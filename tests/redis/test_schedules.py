"""Schedules in Redis: of any size and number, whole when memory is short, and not stopped by damage."""

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.model.errors import StoreFull
from holdfast.model.lifecycle import State
from holdfast.model.records import Edit, LockWish, NewJob, Verdict
from holdfast.model.scheduling import Run, Schedules, ScheduleWrite, Term
from holdfast.stores.marks import process_mark
from holdfast.stores.memory import MemoryStore
from holdfast.stores.redis import schedules as redis_schedules
from holdfast.stores.redis.store import RedisSession
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import LONG, new_job
from holdfast.testing.conformance.idle import Idle
from holdfast.testing.conformance.schedules import names, write
from tests.redis.soundness import check_sound
from tests.redis.support import ANN, claiming, completing, opened, told
from tests.redis.test_wakeups import SOON, Heard, listening
from tests.servers.redis import Redis

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def led(session: RedisSession) -> Term:
    answer = await session.locks.acquire(LockWish(name="leader", owner=ANN, ttl=LONG))
    assert answer.token is not None
    return Term(lock="leader", owner=ANN, token=answer.token)


def test_they_are_due_in_the_order_of_numbers_of_any_size(redis_url: str) -> None:
    past = [-(2**63), -(2**62) - 1, -(2**62), -(2**53) - 1, -(2**53), -1, 0, 1, 2**40]
    future = [2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1]

    async def scenario() -> None:
        async with opened(redis_url) as session:
            schedules = session.schedules
            looks = random.Random(7).sample(past + future, len(past + future))
            await schedules.write([write(str(look), look_at=look) for look in looks])
            found = await schedules.due(99)
            assert [record.look_at for record in found.records] == past
            for look, after in zip(future, [*future[1:], None], strict=True):
                found = await schedules.due(99)
                assert found.next_look == look - found.now
                assert await schedules.remove(str(look))
                assert (await schedules.get([str(look)])).records == []
                assert after is None or (await schedules.get([str(after)])).records[0].look_at == after

    run(scenario)


@pytest.mark.parametrize("version", [-(2**70), -2, -1, 2**53 - 2, 2**53, 2**63, 2**64, 2**70])
def test_a_version_that_nothing_can_have_is_refused(redis_url: str, version: int) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            for _ in range(2):
                assert await session.schedules.write([write(version=version, mark="m")]) == [REFUSED]
                await session.schedules.write([write(mark="m")])
            assert [record.version for record in (await session.schedules.list("", 9)).records] == [1]

    run(scenario)


def test_a_term_without_a_name_is_one_that_nobody_has(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            assert await session.schedules.write([write()], Term(lock="", owner="", token=0)) is None
            assert (await session.schedules.list("", 9)).records == []

    run(scenario)


def test_when_memory_is_short_nothing_is_fired_and_what_is_there_can_be_paused_and_removed(
    private_redis: Redis,
) -> None:
    url = private_redis.url

    async def scenario() -> None:
        async with opened(url, "full") as session:
            schedules = session.schedules
            await schedules.write([write(name, look_at=0) for name in ("a", "b")])
            term = await led(session)
            await told(url, "CONFIG", "SET", "maxmemory", "1")
            before = {key: await told(url, "DUMP", key) for key in await told(url, "KEYS", "*")}
            for wish in (
                write("a", 1, look_at=7, waits=True, jobs=(new_job(),)),
                write("a", 1, look_at=7, jobs=(new_job(key="k", key_ttl=LONG),)),
                write("a", 1, look_at=7, jobs=(new_job(delay=LONG),)),
                write("new", look_at=7),
            ):
                with pytest.raises(StoreFull, match="maxmemory"):
                    await schedules.write([write("b", 1), wish], term)
            after = {key: await told(url, "DUMP", key) for key in await told(url, "KEYS", "*")}
            assert after == before
            assert names(await schedules.due(9)) == ["a", "b"]
            assert await schedules.write([write("a", 1)], term) == [ACCEPTED]
            assert await schedules.remove("b")
            assert names(await schedules.due(9)) == []
        check_sound(url)

    run(scenario)


def test_nothing_is_left_of_schedules_that_are_removed(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url) as session:
            known = set(await told(redis_url, "KEYS", "*"))
            await session.schedules.write([write(name, look_at=0, job="x", waits=True) for name in "abc"])
            await session.schedules.write([write(name, 1, look_at=5, job="x") for name in "ab"])
            for name in "abc":
                assert await session.schedules.remove(name)
            assert set(await told(redis_url, "KEYS", "*")) == known

    run(scenario)


def test_a_job_that_is_fired_is_handed_to_an_idle_worker_and_nobody_else_is_woken(redis_url: str) -> None:
    name = secrets.token_hex(4)

    async def heard_before(heard: Heard, word: str) -> list[bytes]:
        """What was told since the last time."""
        await told(redis_url, "PUBLISH", f"{{holdfast:{name}}}:wake", word)
        async with asyncio.timeout(SOON):
            while not heard.messages or heard.messages[-1][1] != word.encode():
                heard.came.clear()
                await heard.came.wait()
        found = [text for _, text in heard.messages[:-1]]
        heard.messages.clear()
        return found

    async def scenario() -> None:
        async with listening(redis_url, name) as heard, opened(redis_url, name) as session:
            idle = Idle(session, ANN)
            await idle.listens()
            term = await led(session)
            await idle.stand()
            await heard_before(heard, "first")
            job = new_job()
            assert await session.schedules.write([write(jobs=(job,), job=job.id)], term) == [ACCEPTED]
            assert [each.id for each in (await idle.handed()).claimed] == [job.id]
            [record] = (await session.schedules.get(["nightly"])).records
            assert record.run == Run(live=True)
            assert await heard_before(heard, "then") == []
            await session.schedules.write([write(version=1)])
            assert await heard_before(heard, "last") == [process_mark().encode()]
            idle.stop()
        check_sound(redis_url)

    run(scenario)


def test_of_many_that_wait_a_call_looks_at_some_and_the_next_ones_at_the_others(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_schedules, "STEP", 3)

    async def scenario() -> None:
        async with opened(redis_url) as session:
            schedules = session.schedules
            jobs = {f"s{place}": new_job(delay=LONG) for place in range(10)}
            await schedules.write(
                [write(name, job=job.id, waits=True, jobs=(job,)) for name, job in jobs.items()]
            )
            ended = ["s1", "s5", "s9"]
            for name in ended:
                await session.jobs.delete(jobs[name].id)
            for _ in range(3):
                found = [names(await schedules.due(9)) for _ in range(4)]
                assert found == [["s1"], ["s5"], [], ["s9"]]
            await schedules.write([write("due", look_at=0)])
            assert [names(await schedules.due(1)) for _ in range(2)] == [["due"], ["due"]]
            await schedules.remove("due")
            assert [names(await schedules.due(1)) for _ in range(2)] == [["s1"], ["s1"]]
            assert names(await schedules.list("", 8)) == sorted(jobs)[:8]
            assert names(await schedules.get([*sorted(jobs), "none"])) == sorted(jobs)

    run(scenario)


def test_what_somebody_has_deleted_or_overwritten_stops_no_other(redis_url: str) -> None:
    key = "{holdfast:default}:j"

    async def scenario() -> None:
        async with opened(redis_url, "default") as session:
            schedules = session.schedules
            gone = [write(f"gone-{place}", look_at=place) for place in range(5)]
            waiting = [write(f"waiting-{place}", waits=True) for place in range(2)]
            await schedules.write([*gone, *waiting, write("cut", look_at=0), write("sound", look_at=9)])
            await told(redis_url, "HDEL", key, *(wish.name for wish in gone), "waiting-0")
            await told(redis_url, "HSET", key, "cut", "x")
            found = [await schedules.due(3) for _ in range(4)]
            assert names(found[-1]) == ["sound", "waiting-1"]
            assert found[-1].next_look is None
            assert names(await schedules.list("", 99)) == ["sound", "waiting-1"]
            for name in ("cut", "gone-0"):
                assert await schedules.write([write(name, look_at=8)]) == [ACCEPTED]
            assert names(await schedules.due(9)) == ["cut", "gone-0", "sound", "waiting-1"]

    run(scenario)


class Pair:
    """The memory store and Redis, asked the same, with the same answers."""

    def __init__(self, memory: Any, redis: RedisSession) -> None:
        self._sessions = (memory, redis)

    async def __call__(self, part: str, call: str, *args: Any) -> Any:
        first, second = [await getattr(getattr(each, part), call)(*args) for each in self._sessions]
        assert first == second, (call, args)
        return second


def wishes(rng: random.Random, now: int, stored: Schedules) -> list[ScheduleWrite]:
    versions = {record.name: record.version for record in stored.records}
    found: list[ScheduleWrite] = []
    for _ in range(rng.randint(1, 4)):
        name = rng.choice("abcdef")
        jobs: list[NewJob] = [new_job(id=f"j{rng.randint(0, 30)}") for _ in range(rng.randint(0, 2))]
        version = max(0, versions.get(name, 0) + rng.choice([0, 0, 0, 1, -1]))
        wish = write(
            name,
            version,
            mark=rng.choice("mn"),
            state=bytes([rng.randint(0, 255)]),
            look_at=rng.choice([None, now + rng.randint(-3, 3)]),
            job=rng.choice([None, f"j{rng.randint(0, 30)}", *(job.id for job in jobs)]),
            waits=rng.random() < 0.5,
            jobs=tuple(jobs),
        )
        found.append(wish)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_any_sequence_is_answered_as_the_memory_store_does(redis_url: str, seed: int) -> None:
    rng = random.Random(seed)
    clock = ManualClock()

    async def step(both: Pair) -> None:
        stored = await both("schedules", "list", "", 99)
        for limit in (0, 1, 2, 99):
            await both("schedules", "due", limit)
        match rng.randint(0, 5):
            case 0:
                await both("schedules", "remove", rng.choice("abcdef"))
            case 1:
                clock.advance(1e-6 * rng.randint(1, 3))
            case 2:
                held = (await both("jobs", "tick", claiming(rng.randint(1, 10**9)))).claimed
                if held and rng.random() < 0.7:
                    await both("jobs", "tick", completing(rng.randint(1, 10**9), *held))
            case 3:
                job = await both("jobs", "get", f"j{rng.randint(0, 30)}")
                if job is not None and job.state is State.SCHEDULED:
                    edit = Edit(path=(State.SCHEDULED, State.CANCELLED))
                    await both("jobs", "edit", job.id, job.version, edit)
            case _:
                await both("schedules", "write", wishes(rng, stored.now, stored))

    async def scenario() -> None:
        memory = await MemoryStore(clock=clock).connect("n")
        async with opened(redis_url, clock=clock) as session:
            both = Pair(memory, session)
            [known] = await session.fleet.workers()
            await memory.fleet.register(known, LONG)
            for _ in range(120):
                await step(both)
            await both("jobs", "count")
            check_sound(redis_url)
        await memory.close()

    run(scenario)

"""What is refused at start, what an operator is told, and what happens when memory is short."""

import asyncio
from typing import Any

import pytest

from holdfast.model.errors import ConfigurationError, SchemaMismatch, StoreFull
from holdfast.model.records import Extension, Held, LockWish, Verdict
from holdfast.stores import open_store
from holdfast.stores.redis import RedisStore
from holdfast.testing.conformance.case import LONG, new_job
from holdfast.testing.conformance.events import new_event
from tests.redis.support import ANN, claiming, completing, opened, told
from tests.servers.redis import Redis


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"])
def test_a_server_that_may_drop_keys_is_refused(private_redis: Redis, policy: str) -> None:
    private_redis.execute("CONFIG", "SET", "maxmemory-policy", policy)
    with pytest.raises(ConfigurationError, match=f"maxmemory-policy is {policy}.*noeviction"):
        asyncio.run(open_store(private_redis.url).connect("n"))
    assert private_redis.execute("DBSIZE") == 0
    facts = asyncio.run(RedisStore.from_url(private_redis.url).facts())
    assert policy in facts["warning maxmemory-policy"]


@pytest.mark.parametrize(
    ("settings", "durability", "warning"),
    [
        ({"appendonly": "no", "save": ""}, "lost with the process", "warning appendonly"),
        ({"appendonly": "no", "save": "60 1"}, 'save "60 1"', "warning appendonly"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "last second", None),
        ({"appendonly": "yes", "appendfsync": "always"}, "on the disk before it is answered", None),
        ({"appendonly": "yes", "appendfsync": "no"}, "operating system", "warning appendfsync"),
    ],
)
def test_facts_tell_what_may_be_lost(
    private_redis: Redis, settings: dict[str, str], durability: str, warning: str | None
) -> None:
    for name, value in settings.items():
        private_redis.execute("CONFIG", "SET", name, value)
    facts = asyncio.run(RedisStore.from_url(private_redis.url).facts())
    assert durability in facts["durability"]
    assert [name for name in facts if name.startswith("warning")] == ([warning] if warning else [])
    assert facts["engine"] == "redis"


def test_a_layout_of_a_newer_version_is_left_alone(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url, "new"):
            pass
        await told(redis_url, "SET", "{holdfast:new}:v", "3")
        with pytest.raises(SchemaMismatch, match=r"layout is 3.*upgrade"):
            await RedisStore.from_url(redis_url).connect("new")

    asyncio.run(scenario())


def test_a_wrong_password_is_told_as_a_wrong_setting(private_redis: Redis) -> None:
    private_redis.execute("CONFIG", "SET", "requirepass", "right")
    for url in (private_redis.url, private_redis.url.replace("redis://", "redis://:wrong@")):
        with pytest.raises(ConfigurationError) as caught:
            asyncio.run(RedisStore.from_url(url).connect("n"))
        assert "wrong@" not in str(caught.value)


def test_the_right_password_opens_the_store(private_redis: Redis) -> None:
    private_redis.execute("CONFIG", "SET", "requirepass", "right")
    url = private_redis.url.replace("redis://", "redis://:right@")

    async def scenario() -> None:
        async with opened(url) as session:
            [added] = await session.jobs.add([new_job()])
            assert added.created

    asyncio.run(scenario())


async def contents(url: str) -> dict[bytes, Any]:
    """Everything that is stored."""
    keys = await told(url, "KEYS", "*")
    return {key: await told(url, "DUMP", key) for key in keys}


def test_when_memory_is_short_nothing_new_is_taken_and_work_under_way_can_end(private_redis: Redis) -> None:
    url = private_redis.url

    async def scenario() -> None:
        async with opened(url) as session:
            jobs = [new_job() for _ in range(20)]
            await session.jobs.add(jobs)
            held = (await session.jobs.tick(claiming(limit=5))).claimed
            await told(url, "CONFIG", "SET", "maxmemory", "1")
            before = await contents(url)
            for batch in ([new_job()], [new_job(key="k", key_ttl=LONG), *[new_job() for _ in range(50)]]):
                with pytest.raises(StoreFull, match="maxmemory"):
                    await session.jobs.add(batch)
            assert await contents(url) == before
            beats = [Extension(job=job.id, token=job.token, lease=LONG, elapsed=0) for job in held]
            assert await session.jobs.extend(ANN, beats) == [Held.HELD] * 5
            assert await session.fleet.beat(ANN, LONG)
            ticked = await session.jobs.tick(completing(2, *held, result=b"[1]"))
            assert ticked.verdicts == [Verdict.ACCEPTED] * 5
            assert len((await session.jobs.tick(claiming(3, limit=5))).claimed) == 5
            assert await session.jobs.prune(-1, 100) == 5
            await told(url, "CONFIG", "SET", "maxmemory", "0")
            [added] = await session.jobs.add([new_job()])
            assert added.created

    asyncio.run(scenario())


def test_workers_can_come_and_hold_locks_when_memory_is_short(private_redis: Redis) -> None:
    url = private_redis.url

    async def scenario() -> None:
        async with opened(url, "full") as session:
            await session.jobs.add([new_job()])
        await told(url, "CONFIG", "SET", "maxmemory", "1")
        async with opened(url, "full") as session:
            wish = LockWish(name="report", owner="first", ttl=LONG)
            assert (await session.locks.acquire(wish)).token is not None
            [job] = (await session.jobs.tick(claiming())).claimed
            assert (await session.jobs.tick(completing(2, job))).verdicts == [Verdict.ACCEPTED]
            assert await session.jobs.prune(-1, 100) == 1

    asyncio.run(scenario())


def test_nothing_is_left_of_jobs_that_are_gone(redis_url: str) -> None:
    async def scenario() -> None:
        async with opened(redis_url, "growth") as session:
            known = set(await told(redis_url, "KEYS", "*"))
            for turn in range(3):
                jobs = [new_job(queue=f"queue-{turn}-{n}", key=f"k{turn}{n}", key_ttl=LONG) for n in range(5)]
                await session.jobs.add([*jobs, new_job(), new_job(delay=LONG, priority=3)])
                for job in jobs:
                    await session.jobs.delete(job.id)
                claimed = (await session.jobs.tick(claiming(turn, limit=9))).claimed
                await session.jobs.tick(completing(10 + turn, *claimed, result=b"1"))
            assert await session.jobs.prune(-1, 100) == 3
            left = set(await told(redis_url, "KEYS", "*")) - known
            names = {key.partition(b"}:")[2] for key in left}
            assert names == {b"m", b"b", b"i", b"c", b"n", b"s:mail"}

    asyncio.run(scenario())


def test_a_user_with_few_rights_can_do_all_that_workers_do(private_redis: Redis) -> None:
    rights = ["~{holdfast:*", "resetchannels", "&{holdfast:*", "+@all", "-@dangerous", "+info", "+role"]
    private_redis.execute("ACL", "SETUSER", "app", "on", ">secret", *rights)
    url = private_redis.url.replace("redis://", "redis://app:secret@")

    async def scenario() -> None:
        async with opened(url) as session:
            heard = asyncio.Event()
            stop = session.wakeups.listen(heard.set)
            await session.jobs.add([new_job()])
            [job] = (await session.jobs.tick(claiming())).claimed
            await session.jobs.tick(completing(2, job, events=(new_event(aggregate="a"),)))
            await session.events.append([new_event(aggregate="a")])
            assert len((await session.events.read(0, 9)).records) == 2
            assert await session.events.prune(-1, {}, 9) == 2
            async with asyncio.timeout(10):
                await heard.wait()
            stop()
        facts = await RedisStore.from_url(url).facts()
        assert "unknown" in facts["durability"]

    asyncio.run(scenario())

"""Keys of Redis that somebody has put something else at: numbers beyond all bounds, values of other types."""

import re
from typing import Any

import pytest
import redis

from holdfast.model.errors import SchemaMismatch, StoreError
from holdfast.stores.redis.overwritten import TYPES
from holdfast.testing.conformance.case import new_job
from tests.hostile.shop import make_shop
from tests.hostile.test_redis_keys import PREFIX, Dump, check, filled
from tests.redis.support import claiming, opened

__all__ = ["filled"]

LARGEST = str(2**63 - 1)
NUMBERS = (LARGEST, "1e400", "nan")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", ["n", "g", "z:n"])
@pytest.mark.timeout(120)
def test_counters_beyond_all_bounds_hold_up_nobody(
    redis_server: str, filled: tuple[Any, Dump], name: str, number: str
) -> None:
    check(redis_server, filled, lambda client: client.set(PREFIX + name, number))


@pytest.mark.parametrize("name", ["n", "g"])
@pytest.mark.timeout(120)
def test_a_counter_that_is_a_list_begins_anew(redis_server: str, filled: tuple[Any, Dump], name: str) -> None:
    def damage(client: Any) -> None:
        client.delete(PREFIX + name)
        client.rpush(PREFIX + name, "x")

    check(redis_server, filled, damage)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.timeout(120)
def test_the_last_position_of_events_is_found_again(
    redis_server: str, filled: tuple[Any, Dump], number: str
) -> None:
    check(redis_server, filled, lambda client: client.hset(PREFIX + "e:n", "p", number))


@pytest.mark.parametrize("score", ["-inf", "-9.3e18"])
@pytest.mark.timeout(120)
def test_first_positions_that_are_none_keep_no_event_from_being_removed(
    redis_server: str, filled: tuple[Any, Dump], score: str
) -> None:
    def damage(client: Any) -> None:
        for topic in client.zrange(PREFIX + "e:t", 0, -1):
            client.execute_command("ZADD", PREFIX + "e:t", score, topic)

    check(redis_server, filled, damage)


@pytest.mark.parametrize("pattern", ["x:*", "h:*", "o:*"])
@pytest.mark.timeout(120)
def test_what_one_job_or_lock_has_to_itself_holds_up_nobody(
    redis_server: str, filled: tuple[Any, Dump], pattern: str
) -> None:
    def damage(client: Any) -> None:
        for key in client.keys(PREFIX.replace("{", "\\{") + pattern):
            client.delete(key)
            client.sadd(key, "x")

    check(redis_server, filled, damage)


async def test_jobs_whose_history_and_extras_are_something_else_go_on(redis_url: str) -> None:
    """Also where they are written: by a claim, by what fails, and by what is done."""
    shop = make_shop(redis_url)
    client: Any = redis.Redis.from_url(redis_url)
    work = shop.tasks["work"].using(tags=["a"])
    async with shop.app:
        jobs = [await work.enqueue(n) for n in (1, -1)]
        for job in jobs:
            for kind in ("x:", "h:"):
                client.delete(f"{PREFIX}{kind}{job.id}")
                client.sadd(f"{PREFIX}{kind}{job.id}", "x")
        await shop.app.worker(["work"]).run(until_idle=True)
        found = [await shop.app.get(job.id) for job in jobs]
        assert [job and job.state for job in found] == ["success", "dlq"]
        [attempt] = await shop.app.history(jobs[1].id)
        assert attempt.error is not None
        assert "as asked" in attempt.error
    client.close()


@pytest.mark.parametrize("layout", ["garbage", "", "1.5", "-5", "nan"])
async def test_a_layout_that_is_none_is_told(redis_url: str, layout: str) -> None:
    client: Any = redis.Redis.from_url(redis_url)
    async with make_shop(redis_url).app:
        pass
    client.set(PREFIX + "v", layout)
    with pytest.raises(SchemaMismatch, match=re.escape(PREFIX) + "v is .* repair it: SET "):
        async with make_shop(redis_url).app:
            pass
    client.set(PREFIX + "v", "2")
    async with make_shop(redis_url).app as app:
        await app.stats()
    client.close()


@pytest.mark.parametrize("has_limits", [False, True])
@pytest.mark.parametrize("name", ["b", "c", "l", "m", "q"])
async def test_no_job_is_lost_by_a_key_of_another_type(redis_url: str, name: str, has_limits: bool) -> None:
    """A script that is cut off in its middle leaves every job where it is found again."""
    key = f"{{holdfast:spoilt}}:{name}"
    client: Any = redis.Redis.from_url(redis_url)
    async with opened(redis_url, "spoilt") as session:
        await session.jobs.add([new_job() for _ in range(5)])
        if has_limits:
            client.hset("{holdfast:spoilt}:z", "task:another", b"\x7f" * 24 + b"\0" * 9)
        before = client.dump(key)
        client.delete(key)
        client.setbit(key, 1, 1)
        for seq in range(1, 4):
            with pytest.raises(
                StoreError, match=f"{re.escape(key)} is a string and should be a {TYPES[name]}"
            ):
                await session.jobs.tick(claiming(seq, limit=2))
        client.delete(key)
        if before is not None:
            client.restore(key, 0, before)
        found = (await session.jobs.tick(claiming(4, limit=9))).claimed
        held = client.zcount("{holdfast:spoilt}:l", "-inf", "(+inf")
        assert held == 5, "all are held: those of the answer, and those whose answer was lost"
        assert len(found) == 5 or name == "c"
    client.close()


async def test_jobs_that_become_due_are_not_lost_by_a_line_of_another_type(redis_url: str) -> None:
    now = [1_800_000_000_000_000]
    client: Any = redis.Redis.from_url(redis_url)
    async with opened(redis_url, "spoilt", lambda: now[0]) as session:
        jobs = [new_job(due=now[0] + 1_000_000) for _ in range(3)]
        await session.jobs.add(jobs)
        line = f"{{holdfast:spoilt}}:w:{len(jobs[0].queue)}:{jobs[0].queue}:{jobs[0].task}"
        client.set(line, "x")
        now[0] += 2_000_000
        for seq in range(1, 3):
            with pytest.raises(StoreError, match="a key of one queue, limit, sequence or topic"):
                await session.jobs.tick(claiming(seq, limit=9))
        client.delete(line)
        assert len((await session.jobs.tick(claiming(3, limit=9))).claimed) == 3
    client.close()


async def test_a_sequence_keeps_its_order_whatever_its_last_turn_is_overwritten_with(redis_url: str) -> None:
    client: Any = redis.Redis.from_url(redis_url)
    shop = make_shop(redis_url)
    next_one = shop.tasks["work"].using(sequence_key="one")
    async with shop.app:
        jobs = [await next_one.enqueue(0)]
        for damage in (LARGEST, "x", "nan", "-inf"):
            client.set(PREFIX + "z:n", damage)
            jobs.append(await next_one.enqueue(0))
        await shop.app.worker(["work"]).run(until_idle=True)
        done = [await shop.app.get(job.id) for job in jobs]
        assert [job and job.state for job in done] == ["success"] * len(jobs)
        tokens = [(await shop.app.history(job.id))[0].token for job in jobs]
        assert tokens == sorted(set(tokens)), "one after the other, as they were added"
    client.close()


def test_what_is_said_of_the_types_of_keys_is_so(redis_server: str, filled: tuple[Any, Dump]) -> None:
    client, dump = filled
    client.flushdb()
    for key, value in dump.items():
        client.restore(key, 0, value)
    one_each = re.compile(r"(h|o|s|t|w|x|y|za|zb|zd|zf|zh|zp|zw|e:s):")
    seen = set()
    for key in client.keys("*"):
        name = key.decode().removeprefix(PREFIX)
        if name in ("n", "g") or one_each.match(name):
            continue
        seen.add(name)
        assert TYPES[name] == client.type(key).decode(), name
    assert len(seen) > 30

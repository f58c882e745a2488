"""A damaged value of each kind in Redis: nobody is held up by it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.hostile.rounds import complaints
from tests.hostile.shop import GROUP, fill, make_shop

PREFIX = "{holdfast:default}:"
GARBAGE = (b"", b"\xff", b"x" * 300, b"\xc1" * 60, b"\x00" * 90)
HASHES = ("b", "c", "k", "m", "p", "q", "qs", "u", "ur", "z", "z:h", "z:k", "j")
Dump = dict[bytes, bytes]


@pytest.fixture(scope="module")
def filled(redis_server: str) -> Iterator[tuple[Any, Dump]]:
    client: Any = redis.Redis.from_url(redis_server)
    client.flushdb()
    asyncio.run(fill(make_shop(redis_server)))
    yield client, {key: client.dump(key) for key in client.keys("*")}
    client.close()


def check(url: str, filled: tuple[Any, Dump], damage: Callable[[Any], None]) -> None:
    client, dump = filled
    client.flushdb()
    for key, value in dump.items():
        client.restore(key, 0, value)
    damage(client)
    assert complaints(make_shop(url)) == []


def spoilt(value: bytes) -> list[bytes]:
    half = value[: len(value) // 2]
    return [*GARBAGE, half, value[:-3], value + b"junk", b"\xff" * len(value)]


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.timeout(300)
def test_damaged_fields_hold_up_nobody(redis_server: str, filled: tuple[Any, Dump], name: str) -> None:
    """Each spoilt value in the next field; then one more field that is nobody's."""

    def damage(client: Any) -> None:
        key = PREFIX + name
        # A group whose own progress is destroyed cannot go on.
        fields = [field for field in sorted(client.hkeys(key)) if not field.startswith(f"~{GROUP}".encode())]
        for place in range(max(len(fields), len(spoilt(b"")))):
            field = fields[place % len(fields)]
            values = spoilt(client.hget(key, field) or b"")
            client.hset(key, field, values[place % len(values)])
        client.hset(key, b"\xff\xfe", b"\xff")

    check(redis_server, filled, damage)


@pytest.mark.parametrize("pattern", ["x:*", "h:*", "zp:*", "zb:*", "o:*", "f"])
@pytest.mark.timeout(300)
def test_damaged_values_hold_up_nobody(redis_server: str, filled: tuple[Any, Dump], pattern: str) -> None:
    def damage(client: Any) -> None:
        for place, key in enumerate(sorted(client.keys(PREFIX.replace("{", "\\{") + pattern))):
            bad = GARBAGE[place % len(GARBAGE)]
            match client.type(key):
                case b"hash":
                    for field in client.hkeys(key):
                        client.hset(key, field, bad)
                case b"list":
                    client.lpush(key, bad)
                    client.rpush(key, bad)
                case b"set":
                    client.sadd(key, bad)
                case b"zset":
                    client.zadd(key, {bad: 0})
                case _:
                    client.set(key, bad)

    check(redis_server, filled, damage)


@pytest.mark.parametrize("name", ["z:t", "z:r", "z:e", "l"])
@pytest.mark.timeout(300)
def test_scores_that_are_no_instants_hold_up_nobody(
    redis_server: str, filled: tuple[Any, Dump], name: str
) -> None:
    def damage(client: Any) -> None:
        for place, member in enumerate(client.zrange(PREFIX + name, 0, -1)):
            if not member.startswith(b"---"):
                client.zadd(PREFIX + name, {member: (float("inf"), float("-inf"), -(2.0**63))[place % 3]})

    check(redis_server, filled, damage)

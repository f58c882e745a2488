"""What must be refused is refused at enqueue, by the same error on every store, and leaves nothing behind."""

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import ConfigurationError, Holdfast, InvalidJob, PayloadTooLarge, Task

LIMIT = 262_144
FRAME = len('{"x":""}')
NAMES = [
    "a'b", 'a"b', "a\nb", "a\rb", "a\0b", "a" * 300, "a\u202eb", "a b", "", "\ud800", "é", "a\n",
    "a:b", "a{b}",
]  # fmt: skip


def plain(x: int) -> int:
    return x


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: list[tuple[object, str]] = [
    (math.nan, "arguments.x"),
    (-math.inf, "arguments.x"),
    ({"deep": [math.inf]}, "arguments.x['deep'][0]"),
    ("a\0b", "arguments.x"),
    ("\udc00", "arguments.x"),
    ({"\0": 1}, "arguments.x['\\x00']"),
    (2**63, "arguments.x"),
    (-(2**63) - 1, "arguments.x"),
    (datetime(2026, 1, 1), "arguments.x"),  # noqa: DTZ001  this is what must be refused
    ({1: 2}, "arguments.x[1]"),
    (object(), "arguments.x"),
    ("x" * (LIMIT - FRAME + 1), "arguments"),
    ("é" * (LIMIT // 2), "arguments"),
]
BORDERS = [2**63 - 1, -(2**63), "x" * (LIMIT - FRAME), "x" * (LIMIT - FRAME - 1), nested(64)]


def make(url: str) -> tuple[Holdfast, Task[[Any], None]]:
    app = Holdfast(url)

    @app.task
    async def take(x: Any) -> None: ...

    return app, take


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Holdfast, Task[[Any], None]]:
    return make("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db")


async def test_bad_arguments_are_refused_and_the_place_is_named(
    shop: tuple[Holdfast, Task[[Any], None]],
) -> None:
    app, take = shop
    async with app:
        for value, place in VALUES:
            with pytest.raises(InvalidJob) as refusal:
                await take.enqueue(value)
            assert refusal.value.field == place
            assert isinstance(refusal.value, PayloadTooLarge) == (place == "arguments")
            assert str(refusal.value).isprintable()
        with pytest.raises(InvalidJob, match="nested deeper than 64 levels"):
            await take.enqueue(nested(65))
        assert (await app.stats()).queued == 0
        for value in BORDERS:
            await take.enqueue(value)
        assert (await app.stats()).queued == len(BORDERS)


async def test_hostile_names_are_refused_wherever_a_name_is_taken(
    shop: tuple[Holdfast, Task[[Any], None]],
) -> None:
    app, take = shop
    async with app:
        for name in NAMES:
            for place, given in (("queue", name), ("key", name), ("tags", ["fine", name])):
                options: dict[str, Any] = {place: given}
                with pytest.raises(InvalidJob) as refusal:
                    take.using(**options)
                assert refusal.value.field == place
                assert str(refusal.value).isprintable()
            with pytest.raises(InvalidJob, match="queue: "):
                await app.queues.pause(name)
            with pytest.raises(InvalidJob, match="queue: "):
                await app.find(queue=name)
            with pytest.raises(ConfigurationError, match="name: "):
                app.task(name=name)(plain)
        await take.using(queue="a" * 200, key="A-1_2.3@4/5+6=7", tags=["b" * 200]).enqueue(1)
        assert (await app.stats()).queued == 1

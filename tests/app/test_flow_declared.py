"""Limits that are written in code, and are no task's own."""

import pytest

from holdfast import ConfigurationError, Holdfast, Limit


async def test_a_declared_limit_is_stored_when_a_worker_starts_unless_one_was_set() -> None:
    app = Holdfast("memory://")
    app.limits.declare(Limit(concurrency=3), queue="mail")
    app.limits.declare(Limit(rate=2), key="ann")

    @app.task(limit=Limit(concurrency=4))
    async def work() -> None: ...

    async with app:
        await app.limits.set(key="ann", concurrency=9)
        await app.worker().run(until_idle=True)
        found = {(each.scope.value, each.name): each for each in await app.limits.list()}
    assert {place: each.declared for place, each in found.items()} == {
        ("queue", "mail"): True,
        ("task", "work"): True,
        ("key", "ann"): False,
    }
    assert found["queue", "mail"].concurrency == 3


def test_one_place_has_one_limit_in_code() -> None:
    app = Holdfast("memory://")
    app.limits.declare(Limit(concurrency=3), queue="mail")
    app.limits.declare(Limit(concurrency=3), queue="mail")
    with pytest.raises(ConfigurationError, match="mail"):
        app.limits.declare(Limit(concurrency=4), queue="mail")
    with pytest.raises(ConfigurationError, match="one of"):
        app.limits.declare(Limit(concurrency=4))

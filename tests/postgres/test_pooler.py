"""Behind a pooler that gives each transaction another session: everything works, wake-ups by polling."""

import asyncio
import logging
from collections.abc import Iterator

import pytest

from holdfast import ConfigurationError, Context
from holdfast.stores.postgres import listener
from tests.chaos.waiting import until
from tests.postgres import ways
from tests.postgres.pooling import OFF, Pooled, pooled
from tests.postgres.shop import Shop, open_shop
from tests.servers.run import Run

JOBS = 40


@pytest.fixture
def pool(servers: Run, postgres_url: str) -> Iterator[Pooled]:
    with pooled(servers, postgres_url, sessions=2) as made:
        yield made


def shop_behind(pool: Pooled, postgres_url: str, options: str = OFF) -> Shop:
    shop = open_shop(postgres_url)
    shop.app.configured(store=pool.url("shop", options))
    return shop


async def test_workers_and_callers_share_two_sessions_and_every_effect_is_done_once(
    pool: Pooled, postgres_url: str
) -> None:
    shop = shop_behind(pool, postgres_url)

    @shop.app.task
    async def pays(ctx: Context, number: int) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(shop.pay(number))

    @shop.app.task
    def pays_blocking(ctx: Context, number: int) -> None:
        with ctx.sync_transaction() as tx:
            tx.connection.execute(shop.pay(number))

    @shop.app.task
    async def plain(number: int) -> int:
        return number

    async def one(number: int) -> None:
        async with ways.psycopg_async(pool.bouncer.url, prepare_threshold=None) as connection:
            joined = await pays_blocking.enqueue_in(connection, number)
        own = await pays.enqueue(number + JOBS)
        assert await (await plain.enqueue(number)).result(timeout=20) == number
        await joined.result(timeout=20)
        await own.result(timeout=20)

    async with shop.app as app, app.worker(), app.worker():
        await asyncio.gather(*map(one, range(JOBS)))
        assert (await app.stats()).completed == 3 * JOBS
        # Before the end: a session whose client leaves in the middle of a call is not kept.
        assert await asyncio.to_thread(pool.sessions) == 2
    assert sorted(map(int, await shop.ledger())) == list(range(2 * JOBS))


async def test_wake_ups_that_do_not_arrive_are_told_once_and_workers_poll(
    pool: Pooled, postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TRIAL_SECONDS", 0.3)
    shop = shop_behind(pool, postgres_url, "&prepared=off")
    other = open_shop(postgres_url)

    async def plain(number: int) -> int:
        return number

    shop.app.task(plain)
    other.app.configured(namespace=shop.name)
    elsewhere = other.app.task(plain)

    def told() -> list[str]:
        return [line.message for line in caplog.records if line.levelno >= logging.WARNING]

    async with shop.app as app, app.worker(), other.app:
        await until(told, "the line")
        for number in range(5):
            assert await (await elsewhere.enqueue(number)).result(timeout=10) == number
    assert told() == ["wake-ups do not arrive, probably because of a pooler; polling"]


async def test_a_pooler_that_refuses_our_settings_is_told_with_the_way_out(
    pool: Pooled, postgres_url: str
) -> None:
    shop = shop_behind(pool, postgres_url, "")
    with pytest.raises(ConfigurationError, match="prepared=off"):
        async with shop.app:
            pytest.fail("it must not open")

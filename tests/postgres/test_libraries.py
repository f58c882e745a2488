"""Jobs that join a transaction of the user's own, by each library: they stand or fall with it."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, suppress
from typing import Any

import psycopg
import psycopg2
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as aio

from holdfast import IdConflict, KeyConflict, StoreUnavailable
from holdfast.model.errors import ConfigurationError, NotInTransaction, SchemaMismatch
from tests.postgres import ways
from tests.postgres.shop import Shop, open_shop
from tests.postgres.ways import ASYNC_WAYS, WAYS, AsyncWay, Way, run, run_async


@pytest.fixture
def shop(postgres_url: str) -> Shop:
    made = open_shop(postgres_url)
    made.app.task(name="send")(send)
    return made


async def send(number: int) -> int:
    return number


def task(shop: Shop) -> Any:
    return shop.app.tasks["send"]


def name(way: Callable[..., Any]) -> str:
    return way.__name__


@pytest.mark.parametrize("way", WAYS, ids=name)
def test_a_blocking_transaction_takes_its_job_along(shop: Shop, way: Way) -> None:
    with shop.app as app:
        assert app.sync.find() == [], "its namespace is there"
        with way(shop.database) as connection:
            run(connection, shop.pay("kept"))
            kept = task(shop).enqueue_in_sync(connection, 1)
            assert app.sync.get(kept.id) is None, "it is not committed yet"
            run(connection, "SAVEPOINT here")
            undone = task(shop).enqueue_in_sync(connection, 2)
            run(connection, "ROLLBACK TO SAVEPOINT here")
        with suppress(ZeroDivisionError), way(shop.database) as connection:
            run(connection, shop.pay("dropped"))
            dropped = task(shop).enqueue_in_sync(connection, 3)
            raise ZeroDivisionError
        assert app.sync.get(kept.id) == kept
        assert app.sync.get(undone.id) is None
        assert app.sync.get(dropped.id) is None
    assert asyncio.run(shop.ledger()) == ["kept"]


@pytest.mark.parametrize("way", ASYNC_WAYS, ids=name)
async def test_an_async_transaction_takes_its_job_along(shop: Shop, way: AsyncWay) -> None:
    async with shop.app as app:
        async with way(shop.database) as connection:
            await run_async(connection, shop.pay("kept"))
            kept = await task(shop).enqueue_in(connection, 1)
            assert await app.get(kept.id) is None, "it is not committed yet"
            await run_async(connection, "SAVEPOINT here")
            undone = await task(shop).enqueue_in(connection, 2)
            await run_async(connection, "ROLLBACK TO SAVEPOINT here")
        with suppress(ZeroDivisionError):
            async with way(shop.database) as connection:
                await run_async(connection, shop.pay("dropped"))
                dropped = await task(shop).enqueue_in(connection, 3)
                raise ZeroDivisionError
        assert await app.get(kept.id) == kept
        assert await app.get(undone.id) is None
        assert await app.get(dropped.id) is None
    assert await shop.ledger() == ["kept"]


@pytest.mark.parametrize("way", ASYNC_WAYS, ids=name)
async def test_a_job_alone_in_an_async_transaction_is_committed_too(shop: Shop, way: AsyncWay) -> None:
    async with shop.app as app:
        async with way(shop.database) as connection:
            kept = await task(shop).enqueue_in(connection, 1)
        assert await app.get(kept.id) == kept


@pytest.mark.parametrize("way", WAYS, ids=name)
def test_a_job_alone_in_a_blocking_transaction_is_committed_too(shop: Shop, way: Way) -> None:
    with shop.app as app:
        with way(shop.database) as connection:
            kept = task(shop).enqueue_in_sync(connection, 1)
        assert app.sync.get(kept.id) == kept


def psycopg_autocommit(url: str) -> AbstractContextManager[Any]:
    return ways.psycopg_connection(url, autocommit=True)


@contextmanager
def psycopg2_autocommit(url: str) -> Generator[Any]:
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        yield connection


@contextmanager
def sqlalchemy_not_begun(url: str) -> Generator[Any]:
    with ways.engine(url, "psycopg") as engine, engine.connect() as connection:
        yield connection


@contextmanager
def sqlalchemy_autocommit(url: str) -> Generator[Any]:
    with ways.engine(url, "psycopg2", isolation_level="AUTOCOMMIT") as engine, engine.begin() as connection:
        yield connection


@contextmanager
def django_used(url: str) -> Generator[Any]:
    with ways.django(url) as connection:
        run(connection, "SELECT 1")
        yield connection


NOT_BEGUN: tuple[Way, ...] = (
    psycopg_autocommit,
    psycopg2_autocommit,
    sqlalchemy_not_begun,
    sqlalchemy_autocommit,
    ways.django,
    django_used,
)


@pytest.mark.parametrize("way", NOT_BEGUN, ids=name)
def test_a_blocking_connection_without_a_transaction_is_refused(shop: Shop, way: Way) -> None:
    with way(shop.database) as connection, pytest.raises(NotInTransaction, match="begin one"):
        task(shop).enqueue_in_sync(connection, 1)


async def test_an_async_connection_without_a_transaction_is_refused(shop: Shop) -> None:
    enqueue_in = task(shop).enqueue_in
    async with ways.asyncpg_connection(shop.database) as connection:
        await connection.execute("COMMIT")
        with pytest.raises(NotInTransaction, match="begin one"):
            await enqueue_in(connection, 1)
        await connection.execute("BEGIN")
    async with ways.psycopg_async(shop.database, autocommit=True) as connection:
        with pytest.raises(NotInTransaction, match="begin one"):
            await enqueue_in(connection, 1)
    for driver in ("asyncpg", "psycopg"):
        async with ways.async_engine(shop.database, driver) as engine:
            async with engine.connect() as connection:
                with pytest.raises(NotInTransaction, match="begin one"):
                    await enqueue_in(connection, 1)
            async with engine.connect() as connection:
                automatic = await connection.execution_options(isolation_level="AUTOCOMMIT")
                async with automatic.begin():
                    with pytest.raises(NotInTransaction, match="begin one"):
                        await enqueue_in(automatic, 1)


async def test_what_is_no_connection_to_postgresql_is_refused(shop: Shop) -> None:
    strangers: list[Any] = [object(), None, "postgresql://"]
    with (
        closing(sqlite3.connect(":memory:")) as lite,
        sqlalchemy.create_engine("sqlite://").begin() as alchemy,
        psycopg.connect(shop.database) as connection,
        connection.cursor() as cursor,
        closing(psycopg2.connect(shop.database)) as other,
        other.cursor() as other_cursor,
    ):
        for stranger in (*strangers, lite, alchemy, cursor, other_cursor):
            with pytest.raises(ConfigurationError, match="is not a connection to PostgreSQL"):
                task(shop).enqueue_in_sync(stranger, 1)
            with pytest.raises(ConfigurationError, match="is not a connection to PostgreSQL"):
                await task(shop).enqueue_in(stranger, 1)


async def test_an_async_connection_is_refused_by_the_blocking_form(shop: Shop) -> None:
    for way in ASYNC_WAYS:
        async with way(shop.database) as connection:
            if isinstance(connection, aio.AsyncSession):
                continue
            if isinstance(connection, aio.AsyncConnection):
                connection = connection.sync_connection  # noqa: PLW2901  what `run_sync` gives
            with pytest.raises(ConfigurationError, match="without `_sync`"):
                task(shop).enqueue_in_sync(connection, 1)


async def test_a_blocking_connection_may_be_used_in_async_code(shop: Shop) -> None:
    async with shop.app as app:
        with psycopg.connect(shop.database) as connection:
            job = await task(shop).enqueue_in(connection, 1)
        assert await app.get(job.id) == job


def test_a_connection_to_a_database_without_our_schema_is_told(shop: Shop, postgres_server: str) -> None:
    with psycopg.connect(postgres_server) as connection:
        with pytest.raises(SchemaMismatch, match=r"holdfast migrate, unless .* another database"):
            task(shop).enqueue_in_sync(connection, 1)
        connection.rollback()


async def test_keys_and_ids_are_answered_as_ever_and_leave_the_transaction_as_it_was(shop: Shop) -> None:
    send = task(shop)
    async with shop.app as app:
        first = await send.using(key="k").enqueue(1)
        async with ways.asyncpg_connection(shop.database) as connection:
            assert (await send.using(key="k").enqueue_in(connection, 1)).id == first.id
            assert (await send.using(id=first.id).enqueue_in(connection, 1)).id == first.id
            with pytest.raises(KeyConflict):
                await send.using(key="k").enqueue_in(connection, 2)
            with pytest.raises(IdConflict):
                await send.using(id=first.id).enqueue_in(connection, 2)
            new = await send.using(key="new", tags=["a"], delay=60).enqueue_in(connection, 3)
            assert (await send.using(key="new").enqueue_in(connection, 3)).id == new.id
            await connection.execute(shop.pay("kept"))
        assert await app.get(new.id) == new
        assert len(await app.find()) == 2
    assert await shop.ledger() == ["kept"]


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_a_job_joins_a_transaction_with_a_snapshot(shop: Shop, isolation: str) -> None:
    async with shop.app as app:
        async with begun(shop, isolation) as connection:
            other = await task(shop).enqueue(1)
            job = await task(shop).using(key="k").enqueue_in(connection, 2)
            assert await connection.fetchval("SELECT count(*) FROM shop.job WHERE id = $1", other.id) == 0
        assert await app.get(job.id) == job


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_what_a_snapshot_does_not_show_is_never_added_twice(shop: Shop, isolation: str) -> None:
    async with shop.app as app:
        for given in ({"key": "k"}, {"id": "0190a0b0-0000-7000-8000-000000000001"}):
            async with begun(shop, isolation) as connection:
                taken = await task(shop).using(**given).enqueue(1)
                with pytest.raises(StoreUnavailable, match="roll the transaction back and do it again"):
                    await task(shop).using(**given).enqueue_in(connection, 1)
            async with begun(shop, isolation) as connection:
                assert (await task(shop).using(**given).enqueue_in(connection, 1)).id == taken.id
        assert len(await app.find()) == 2


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_a_job_that_finished_behind_a_snapshot_is_never_added_again(shop: Shop, isolation: str) -> None:
    async with shop.app as app:
        async with begun(shop, isolation) as connection:
            done = await task(shop).enqueue(1)
            await app.worker().run(until_idle=True)
            with pytest.raises(StoreUnavailable, match="roll the transaction back and do it again"):
                await task(shop).using(id=done.id).enqueue_in(connection, 1)
        assert [job.state for job in await app.find()] == ["success"]


@asynccontextmanager
async def begun(shop: Shop, isolation: str) -> AsyncGenerator[Any]:
    """A transaction of asyncpg that has its snapshot."""
    async with ways.asyncpg_connection(shop.database) as connection:
        await connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
        await connection.execute("SELECT FROM public.ledger")
        yield connection


async def test_the_commit_wakes_an_idle_worker(postgres_url: str) -> None:
    shop = open_shop(postgres_url, poll_seconds=60)
    shop.app.task(name="send")(send)
    async with shop.app as app, app.worker():
        # The first job makes sure that the worker listens, and is idle after it.
        assert await (await task(shop).enqueue(1)).result(timeout=10) == 1
        async with ways.asyncpg_connection(postgres_url) as connection:
            job = await task(shop).enqueue_in(connection, 2)
        assert await job.result(timeout=10) == 2
        with psycopg.connect(postgres_url) as blocking:
            job = task(shop).enqueue_in_sync(blocking, 3)
        assert await job.result(timeout=10) == 3

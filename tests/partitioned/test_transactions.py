"""Transactions of users and of handlers, each in the partition that it belongs to."""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Context, Event, Holdfast, NotInTransaction
from holdfast.model.errors import ConfigurationError
from holdfast.model.lifecycle import State
from holdfast.model.partition import as_url, layout
from tests.partitioned.conftest import NAMES
from tests.partitioned.process_shop import shop_of
from tests.postgres.ways import ASYNC_WAYS, WAYS, AsyncWay, Way

QUEUES = [f"in-{name}" for name in NAMES]


def name_of(way: Callable[..., Any]) -> str:
    return way.__name__


def url_of(urls: dict[str, str]) -> str:
    rules = [(f"in-{name}", name) for name in urls]
    return as_url(layout(urls, queues=rules, topics=[("orders", "b")]))


@pytest.fixture
def shop(postgres_urls: dict[str, str]) -> Iterator[Holdfast]:
    """An application on three databases, in a namespace of its own, with a ledger in each."""
    app = Holdfast(url_of(postgres_urls), namespace=f"n{secrets.token_hex(6)}", auto_migrate=True)
    for url in postgres_urls.values():
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS public.ledger (entry text NOT NULL)")

    @app.task
    async def send(number: int) -> int:
        return number

    with app:
        assert app.sync.find() == [], "its namespace is there"
        yield app


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_a_job_joins_a_transaction_of_the_partition_of_its_queue(
    shop: Holdfast, postgres_urls: dict[str, str], way: Way
) -> None:
    send = shop.tasks["send"]
    for name, url in postgres_urls.items():
        with way(url) as connection:
            job = send.using(queue=f"in-{name}").enqueue_in_sync(connection, 1)
        assert shop.sync.get(job.id) == job
        assert shop.settings.store
        assert _partition(shop, job.id) == name


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_a_connection_to_another_partition_is_refused_by_name(
    shop: Holdfast, postgres_urls: dict[str, str], way: Way
) -> None:
    send = shop.tasks["send"]
    with (
        way(postgres_urls["a"]) as connection,
        pytest.raises(
            ConfigurationError, match="belongs to partition b, but the connection is one to partition a"
        ),
    ):
        send.using(queue="in-b").enqueue_in_sync(connection, 1)
    assert shop.sync.find() == []


@pytest.mark.parametrize("way", ASYNC_WAYS, ids=name_of)
async def test_the_same_holds_for_async_connections_and_for_events(
    postgres_urls: dict[str, str], shop: Holdfast, way: AsyncWay
) -> None:
    app = Holdfast(shop.settings.store, namespace=shop.settings.namespace)
    event = Event(topic="orders", type="placed", data=1)

    @app.task
    async def send(number: int) -> int:
        return number

    async with app:
        async with way(postgres_urls["b"]) as connection:
            job = await send.using(queue="in-b").enqueue_in(connection, 1)
            await app.emit_in(connection, event)
            with pytest.raises(ConfigurationError, match="partition c"):
                await send.using(queue="in-c").enqueue_in(connection, 1)
        async with way(postgres_urls["a"]) as connection:
            with pytest.raises(ConfigurationError, match="topic orders belongs to partition b"):
                await app.emit_in(connection, event)
        assert await app.partitions.of_job(job.id) == "b"
        assert len(await app.events.list()) == 1


def test_without_a_transaction_nothing_is_stored(shop: Holdfast, postgres_urls: dict[str, str]) -> None:
    with psycopg.connect(postgres_urls["a"], autocommit=True) as connection, pytest.raises(NotInTransaction):
        shop.tasks["send"].using(queue="in-a").enqueue_in_sync(connection, 1)


async def test_a_handlers_transaction_is_one_of_its_jobs_own_partition(
    postgres_urls: dict[str, str], shop: Holdfast
) -> None:
    mark = secrets.token_hex(6)
    app = Holdfast(shop.settings.store, namespace=shop.settings.namespace, poll_seconds=0.1)

    @app.task
    async def pay(ctx: Context, entry: str) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute("INSERT INTO public.ledger VALUES ($1)", entry)

    async with app:
        jobs = [await pay.using(queue=queue).enqueue(f"{mark} {queue}") for queue in QUEUES]
        await app.worker(queues=QUEUES).run(until_idle=True)
        assert [job.state for job in await app.find()] == [State.SUCCESS] * len(jobs)
    for name, url in postgres_urls.items():
        assert await asyncio.to_thread(_ledger, url, mark) == [f"{mark} in-{name}"]


async def test_so_it_is_for_a_handler_in_a_process_of_its_own(
    postgres_urls: dict[str, str], shop: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = secrets.token_hex(6)
    app = shop_of(shop.settings.store, shop.settings.namespace)
    async with app:
        for queue in QUEUES:
            await app.tasks["pay_in_process"].using(queue=queue).enqueue(f"{mark} {queue}")
        await app.worker(queues=QUEUES).run(until_idle=True)
        assert [job.state for job in await app.find()] == [State.SUCCESS] * 3, await app.find()
    for name, url in postgres_urls.items():
        assert await asyncio.to_thread(_ledger, url, mark) == [f"{mark} in-{name}"]


def test_files_are_told_apart_too(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.db" for name in NAMES}
    app = Holdfast(url_of({name: f"sqlite:///{file}" for name, file in files.items()}))

    @app.task
    def send(number: int) -> int:
        return number

    with app:
        app.sync.find()
        with closing(sqlite3.connect(files["b"])) as connection, connection:
            connection.execute("CREATE TABLE bill (number INTEGER)")
            connection.execute("INSERT INTO bill VALUES (1)")
            job = send.using(queue="in-b").enqueue_in_sync(connection, 1)
            with pytest.raises(ConfigurationError, match="to partition b"):
                send.using(queue="in-a").enqueue_in_sync(connection, 1)
        assert _partition(app, job.id) == "b"


def _ledger(url: str, mark: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT entry FROM public.ledger WHERE entry LIKE %s", [f"{mark}%"])
        return [entry for (entry,) in found]


def _partition(app: Holdfast, job_id: str) -> str | None:
    async def ask() -> str | None:
        other = Holdfast(app.settings.store, namespace=app.settings.namespace)
        async with other:
            return await other.partitions.of_job(job_id)

    return asyncio.run(ask())

"""Connections of other libraries, found by what they look like."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import NotInTransaction
from holdfast.stores.sqlite import SqliteStore
from tests.sqlite.support import file_of, new_job, session_at, store_at


class Proxied:
    """What SQLAlchemy's pool gives: the driver's connection is inside."""

    def __init__(self, driver_connection: Any) -> None:
        self.driver_connection = driver_connection


class Connection:
    """A SQLAlchemy connection: it has begun before sqlite3 has."""

    def __init__(self, driver_connection: Any, *, begun: bool) -> None:
        self.connection = Proxied(driver_connection)
        self._begun = begun

    def in_transaction(self) -> bool:
        return self._begun


class OrmSession:
    """A SQLAlchemy session, whose `connection` is a method."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connection(self) -> Connection:
        return self._connection

    def in_transaction(self) -> bool:
        return self._connection.in_transaction()


class DjangoWrapper:
    """Django's `connection`, whose `connection` is sqlite3's, or None before it is used."""

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self.connection = connection
        self.in_atomic_block = True


class AioConnection:
    """An aiosqlite connection: everything runs on its thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._conn = connection

    async def _execute(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)


class AsyncConnection:
    """A SQLAlchemy async connection over aiosqlite."""

    def __init__(self, connection: AioConnection, *, begun: bool) -> None:
        self._connection = connection
        self._begun = begun

    def in_transaction(self) -> bool:
        return self._begun

    async def get_raw_connection(self) -> Proxied:
        return Proxied(self._connection)


class AsyncOrmSession:
    """A SQLAlchemy async session."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.sync_session = object()
        self._connection = connection

    async def connection(self) -> AsyncConnection:
        return self._connection

    def in_transaction(self) -> bool:
        return self._connection.in_transaction()


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    asyncio.run(store_at(tmp_path).migrations.apply())
    return store_at(tmp_path)


@pytest.fixture
def raw(store: SqliteStore, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file_of(tmp_path), check_same_thread=False)) as made:
        yield made


async def count(folder: Path) -> int:
    async with session_at(folder) as session:
        return sum(line.count for line in await session.jobs.count())


async def test_a_sqlalchemy_connection_or_session_that_has_begun_is_joined(
    tmp_path: Path, store: SqliteStore, raw: sqlite3.Connection
) -> None:
    for given in (Connection(raw, begun=True), OrmSession(Connection(raw, begun=True))):
        store.transactions.add_in_sync(given, "default", [new_job()])
        assert raw.in_transaction
        raw.commit()
    assert await count(tmp_path) == 2


def test_a_sqlalchemy_connection_that_has_not_begun_is_refused(
    store: SqliteStore, raw: sqlite3.Connection
) -> None:
    with pytest.raises(NotInTransaction):
        store.transactions.add_in_sync(Connection(raw, begun=False), "default", [new_job()])


async def test_a_django_connection_in_a_transaction_is_joined(
    tmp_path: Path, store: SqliteStore, raw: sqlite3.Connection
) -> None:
    for unused in (DjangoWrapper(None), DjangoWrapper(raw)):
        with pytest.raises(NotInTransaction):
            store.transactions.add_in_sync(unused, "default", [new_job()])
    raw.execute("BEGIN")
    store.transactions.add_in_sync(DjangoWrapper(raw), "default", [new_job()])
    raw.commit()
    assert await count(tmp_path) == 1


async def test_an_aiosqlite_connection_is_joined_on_its_own_thread(
    tmp_path: Path, store: SqliteStore, raw: sqlite3.Connection
) -> None:
    with pytest.raises(NotInTransaction):
        await store.transactions.add_in(AioConnection(raw), "default", [new_job()])
    raw.execute("BEGIN")
    await store.transactions.add_in(AioConnection(raw), "default", [new_job()])
    raw.commit()
    assert await count(tmp_path) == 1


async def test_an_async_sqlalchemy_connection_or_session_is_joined(
    tmp_path: Path, store: SqliteStore, raw: sqlite3.Connection
) -> None:
    aio = AioConnection(raw)
    for given in (AsyncConnection(aio, begun=True), AsyncOrmSession(AsyncConnection(aio, begun=True))):
        await store.transactions.add_in(given, "default", [new_job()])
        raw.commit()
    with pytest.raises(NotInTransaction):
        await store.transactions.add_in(AsyncConnection(aio, begun=False), "default", [new_job()])
    assert await count(tmp_path) == 2

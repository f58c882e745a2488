"""Transactions as users of each library open them: committed when left, rolled back on an exception."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeAlias
from unittest.mock import patch
from urllib.parse import urlsplit

import asyncpg
import psycopg
import psycopg2.extras
import sqlalchemy
from django import setup
from django.conf import settings as django_settings
from django.db import transaction as django_transaction
from django.db.utils import ConnectionHandler
from django.utils.functional import empty
from psycopg import rows
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as aio

Way: TypeAlias = Callable[[str], AbstractContextManager[Any]]
AsyncWay: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]


def dialect(url: str, name: str) -> str:
    """The URL for SQLAlchemy."""
    return urlsplit(url)._replace(scheme=f"postgresql+{name}").geturl()


@contextmanager
def psycopg_connection(url: str, **settings: Any) -> Generator[Any]:
    with psycopg.connect(url, **settings) as connection:
        yield connection


@contextmanager
def psycopg_block(url: str) -> Generator[Any]:
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


def psycopg_dictionaries(url: str) -> AbstractContextManager[Any]:
    return psycopg_connection(url, row_factory=rows.dict_row)


def psycopg_raw_cursors(url: str) -> AbstractContextManager[Any]:
    return psycopg_connection(url, cursor_factory=psycopg.RawCursor)


def psycopg_client_cursors(url: str) -> AbstractContextManager[Any]:
    return psycopg_connection(url, cursor_factory=psycopg.ClientCursor)


@contextmanager
def psycopg2_connection(url: str) -> Generator[Any]:
    connection = psycopg2.connect(url, cursor_factory=psycopg2.extras.RealDictCursor)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def engine(url: str, driver: str, **settings: Any) -> Generator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(dialect(url, driver), **settings)
    try:
        yield made
    finally:
        made.dispose()


@contextmanager
def sqlalchemy_connection(url: str, driver: str = "psycopg") -> Generator[Any]:
    with engine(url, driver) as made, made.begin() as connection:
        yield connection


@contextmanager
def sqlalchemy_session(url: str, driver: str = "psycopg") -> Generator[Any]:
    with engine(url, driver) as made, orm.Session(made) as session, session.begin():
        yield session


@contextmanager
def sqlalchemy_fresh_session(url: str) -> Generator[Any]:
    """A session begins by itself."""
    with engine(url, "psycopg") as made, orm.Session(made) as session:
        yield session
        session.commit()


def sqlalchemy_psycopg2_connection(url: str) -> AbstractContextManager[Any]:
    return sqlalchemy_connection(url, "psycopg2")


def sqlalchemy_psycopg2_session(url: str) -> AbstractContextManager[Any]:
    return sqlalchemy_session(url, "psycopg2")


@contextmanager
def django(url: str) -> Generator[Any]:
    """Django's connection, in no transaction; its settings are forgotten afterwards, for others to make."""
    parts = urlsplit(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.removeprefix("/"),
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "PASSWORD": parts.password or "",
    }
    with patch.object(django_settings, "_wrapped", empty):
        django_settings.configure()
        setup()
        handler = ConnectionHandler({"default": database})
        with patch.object(django_transaction, "connections", handler):
            try:
                yield handler["default"]
            finally:
                handler["default"].close()


@contextmanager
def django_atomic(url: str) -> Generator[Any]:
    with django(url) as connection, django_transaction.atomic():
        yield connection


WAYS: tuple[Way, ...] = (
    psycopg_connection,
    psycopg_block,
    psycopg_dictionaries,
    psycopg_raw_cursors,
    psycopg_client_cursors,
    psycopg2_connection,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_fresh_session,
    sqlalchemy_psycopg2_connection,
    sqlalchemy_psycopg2_session,
    django_atomic,
)


def run(connection: Any, sql: str) -> None:
    """One statement of the user's own."""
    if isinstance(connection, orm.Session):
        connection.connection().exec_driver_sql(sql)
    elif isinstance(connection, sqlalchemy.Connection):
        connection.exec_driver_sql(sql)
    else:
        with connection.cursor() as cursor:
            cursor.execute(sql)


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncGenerator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncGenerator[Any]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def asyncpg_own_json(url: str) -> AsyncGenerator[Any]:
    async with asyncpg_connection(url) as connection:
        await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=repr, decoder=len)
        yield connection


@asynccontextmanager
async def psycopg_async(url: str, **settings: Any) -> AsyncGenerator[Any]:
    async with await psycopg.AsyncConnection.connect(url, **settings) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async_block(url: str) -> AsyncGenerator[Any]:
    async with psycopg_async(url, autocommit=True) as connection, connection.transaction():
        yield connection


def psycopg_async_dictionaries(url: str) -> AbstractAsyncContextManager[Any]:
    return psycopg_async(url, row_factory=rows.dict_row)


def psycopg_async_raw_cursors(url: str) -> AbstractAsyncContextManager[Any]:
    return psycopg_async(url, cursor_factory=psycopg.AsyncRawCursor)


@asynccontextmanager
async def async_engine(url: str, driver: str) -> AsyncGenerator[aio.AsyncEngine]:
    made = aio.create_async_engine(dialect(url, driver))
    try:
        yield made
    finally:
        await made.dispose()


@asynccontextmanager
async def sqlalchemy_async(url: str, driver: str = "asyncpg") -> AsyncGenerator[Any]:
    async with async_engine(url, driver) as made, made.begin() as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_async_session(url: str, driver: str = "asyncpg") -> AsyncGenerator[Any]:
    async with async_engine(url, driver) as made, aio.AsyncSession(made) as session, session.begin():
        yield session


def sqlalchemy_async_psycopg(url: str) -> AbstractAsyncContextManager[Any]:
    return sqlalchemy_async(url, "psycopg")


def sqlalchemy_async_psycopg_session(url: str) -> AbstractAsyncContextManager[Any]:
    return sqlalchemy_async_session(url, "psycopg")


ASYNC_WAYS: tuple[AsyncWay, ...] = (
    asyncpg_connection,
    asyncpg_pool,
    asyncpg_own_json,
    psycopg_async,
    psycopg_async_block,
    psycopg_async_dictionaries,
    psycopg_async_raw_cursors,
    sqlalchemy_async,
    sqlalchemy_async_session,
    sqlalchemy_async_psycopg,
    sqlalchemy_async_psycopg_session,
)


async def run_async(connection: Any, sql: str) -> None:
    """One statement of the user's own."""
    if isinstance(connection, aio.AsyncSession):
        connection = await connection.connection()
    if isinstance(connection, aio.AsyncConnection):
        await connection.exec_driver_sql(sql)
    else:
        await connection.execute(sql)

"""The libraries themselves: `test_joining` has what they look like."""

import asyncio
from pathlib import Path

import aiosqlite
import django
import pytest
import sqlalchemy
from django.conf import settings as django_settings
from django.db import connection
from django.db.transaction import atomic, set_rollback
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as aio

from holdfast.model.errors import NotInTransaction
from holdfast.stores.sqlite import SqliteStore
from tests.sqlite.support import file_of, new_job, session_at, store_at


async def made_store(folder: Path) -> SqliteStore:
    store = store_at(folder)
    await store.migrations.apply()
    return store


async def count(folder: Path) -> int:
    async with session_at(folder) as session:
        return sum(line.count for line in await session.jobs.count())


async def test_a_sqlalchemy_transaction(tmp_path: Path) -> None:
    transactions = (await made_store(tmp_path)).transactions
    engine = sqlalchemy.create_engine(f"sqlite:///{file_of(tmp_path)}")
    with engine.begin() as connection:
        transactions.add_in_sync(connection, "default", [new_job()])
    with engine.connect() as connection, pytest.raises(NotInTransaction):
        transactions.add_in_sync(connection, "default", [new_job()])
    with orm.Session(engine) as session, session.begin():
        transactions.add_in_sync(session, "default", [new_job()])
    with orm.Session(engine) as session:
        session.begin()
        transactions.add_in_sync(session, "default", [new_job()])
        session.rollback()
    engine.dispose()
    assert await count(tmp_path) == 2


async def test_an_async_sqlalchemy_transaction(tmp_path: Path) -> None:
    transactions = (await made_store(tmp_path)).transactions
    engine = aio.create_async_engine(f"sqlite+aiosqlite:///{file_of(tmp_path)}")
    async with engine.begin() as connection:
        await transactions.add_in(connection, "default", [new_job()])
    async with aio.AsyncSession(engine) as session, session.begin():
        await transactions.add_in(session, "default", [new_job()])
    async with engine.connect() as connection:
        with pytest.raises(NotInTransaction):
            await transactions.add_in(connection, "default", [new_job()])
    await engine.dispose()
    assert await count(tmp_path) == 2


async def test_an_aiosqlite_transaction(tmp_path: Path) -> None:
    transactions = (await made_store(tmp_path)).transactions
    async with aiosqlite.connect(file_of(tmp_path)) as connection:
        with pytest.raises(NotInTransaction):
            await transactions.add_in(connection, "default", [new_job()])
        await connection.execute("BEGIN IMMEDIATE")
        await transactions.add_in(connection, "default", [new_job()])
        await connection.commit()
    assert await count(tmp_path) == 1


def test_a_django_transaction(tmp_path: Path) -> None:
    transactions = asyncio.run(made_store(tmp_path)).transactions
    databases = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file_of(tmp_path)}}
    django_settings.configure(DATABASES=databases)
    django.setup()
    with pytest.raises(NotInTransaction):
        transactions.add_in_sync(connection, "default", [new_job()])
    with atomic():
        transactions.add_in_sync(connection, "default", [new_job()])
    with atomic():
        transactions.add_in_sync(connection, "default", [new_job()])
        set_rollback(True)
    connection.close()
    assert asyncio.run(count(tmp_path)) == 1

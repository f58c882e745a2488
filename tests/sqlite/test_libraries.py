"""The libraries themselves, where they are installed: `test_joining` has what they look like."""

from pathlib import Path

import pytest

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
    sqlalchemy = pytest.importorskip("sqlalchemy")
    orm = pytest.importorskip("sqlalchemy.orm")
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
    pytest.importorskip("aiosqlite")
    aio = pytest.importorskip("sqlalchemy.ext.asyncio")
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
    aiosqlite = pytest.importorskip("aiosqlite")
    transactions = (await made_store(tmp_path)).transactions
    async with aiosqlite.connect(file_of(tmp_path)) as connection:
        with pytest.raises(NotInTransaction):
            await transactions.add_in(connection, "default", [new_job()])
        await connection.execute("BEGIN IMMEDIATE")
        await transactions.add_in(connection, "default", [new_job()])
        await connection.commit()
    assert await count(tmp_path) == 1

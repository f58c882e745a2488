"""Events that are emitted in a transaction of the producer's own, which is then committed or rolled back."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from importlib import import_module
from typing import Any, Final

from holdfast.engine.ids import new_id
from holdfast.model.errors import StoreError
from holdfast.model.events import Event
from holdfast.torture.history import Call, Done, Failed, Unknown, Verb
from holdfast.torture.programs.witness import recorder
from holdfast.torture.programs.workload import TOPIC, app, store_kind

PATIENCE: Final = 2.0


async def emit(number: int) -> None:
    """Emits an event; two of three times the transaction is rolled back."""
    if store_kind() not in {"sqlite", "postgresql"}:
        return
    keeps = number % 3 == 0
    event = Event(topic=TOPIC, type="joined", data=number, aggregate=f"order-{number % 50}", id=new_id())
    verb: Verb = "emit" if keeps else "emit_rolled_back"
    op = recorder().call(Call(verb=verb, event=event.id, aggregate=event.aggregate))
    in_transaction = _in_postgres if store_kind() == "postgresql" else _in_sqlite
    try:
        async with asyncio.timeout(PATIENCE):
            await in_transaction(event, keeps=keeps)
    except _faults() as error:
        ended = Unknown if keeps else Failed
        recorder().write(ended(op=op, error=type(error).__name__))
        return
    recorder().write(Done(op=op) if keeps else Failed(op=op, error="rolled back"))


async def _in_postgres(event: Event[int], *, keeps: bool) -> None:
    asyncpg: Any = import_module("asyncpg")
    connection = await asyncpg.connect(app.settings.store)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await app.emit_in(connection, event)
        await (transaction.commit() if keeps else transaction.rollback())
    finally:
        connection.terminate()


async def _in_sqlite(event: Event[int], *, keeps: bool) -> None:
    await asyncio.to_thread(_in_sqlite_sync, event, keeps=keeps)


def _in_sqlite_sync(event: Event[int], *, keeps: bool) -> None:
    path = app.settings.store.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            app.emit_in_sync(connection, event)
        except BaseException:
            connection.rollback()
            raise
        connection.execute("COMMIT" if keeps else "ROLLBACK")


def _faults() -> tuple[type[Exception], ...]:
    """What the driver raises when the transaction is cut off."""
    if store_kind() == "sqlite":
        return (StoreError, sqlite3.Error, OSError, TimeoutError)
    asyncpg: Any = import_module("asyncpg")
    return (StoreError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)

"""Work inside a transaction that somebody else commits: the server's own functions, with JSON to each."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from holdfast.model.errors import OutcomeUnknown, SchemaMismatch, StoreUnavailable
from holdfast.model.events import NewEvent
from holdfast.model.records import Added, Move, NewJob, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.stores.plain import may_wake
from holdfast.stores.postgres import adding, appending, moving, schedules
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.blocking import BlockingConnections
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.faults import sqlstate, translated
from holdfast.stores.postgres.joining import fetch, fetch_sync

_Statement: TypeAlias = tuple[str, list[str]]

_NAMESPACE = "WITH n AS (SELECT holdfast.namespace_v1({0}) AS id) "
# JSON goes as text: callers may have given their connections other ideas of jsonb.
_ADD = _NAMESPACE + "SELECT holdfast.add_json_v1(n.id, NULL, {1}::text::jsonb, {2}) FROM n"
_MOVE = _NAMESPACE + "SELECT holdfast.move_in_v2(n.id, {1}, {2}::text::jsonb, {3}) FROM n"
_APPEND = _NAMESPACE + "SELECT holdfast.append_json_v1(n.id, NULL, {1}::text::jsonb, {2}) FROM n"
_WRITE = _NAMESPACE + "SELECT holdfast.write_in_v1(n.id, {1}::text::jsonb, {2}) FROM n"
# Not the mark of this process, which does not listen to itself: only the server knows when it is committed.
_SENDER = "joined"


class PostgresTransactions:
    """Work on connections of callers, and transactions on connections of our own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._databases: WeakKeyDictionary[asyncio.AbstractEventLoop, Database] = WeakKeyDictionary()
        self._blocking = BlockingConnections(address)

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        return adding.answers(jobs, self._told_sync(connection, self._add(namespace, jobs)))

    async def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        return adding.answers(jobs, await self._told(connection, self._add(namespace, jobs)))

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return _verdict(self._told_sync(connection, self._move(namespace, worker, move)))

    async def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return _verdict(await self._told(connection, self._move(namespace, worker, move)))

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        if events:
            self._told_sync(connection, self._append(namespace, events))

    async def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        if events:
            await self._told(connection, self._append(namespace, events))

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return _verdict(self._told_sync(connection, self._write(namespace, write, term)))

    async def write_in(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return _verdict(await self._told(connection, self._write(namespace, write, term)))

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Any]:
        """A connection of asyncpg."""
        loop = asyncio.get_running_loop()
        database = self._databases.get(loop)
        if database is None:
            database = self._databases[loop] = Database(self._address)
        async with database.begin() as connection:
            yield connection

    @contextmanager
    def begin_sync(self) -> Generator[Any]:
        """A connection of psycopg."""
        with self._blocking.lent() as connection:
            yield connection
            try:
                connection.commit()
            except Exception as error:
                raise translated(error, self._address.place, sent=True) from error

    async def close(self) -> None:
        """Closes what no transaction uses."""
        database = self._databases.pop(asyncio.get_running_loop(), None)
        if database is not None:
            await database.close()
        self._blocking.close()

    def _told_sync(self, connection: Any, statement: _Statement) -> Any:
        try:
            return fetch_sync(connection, *statement)
        except Exception as error:
            raise self._failed(error) from error

    async def _told(self, connection: Any, statement: _Statement) -> Any:
        try:
            return await fetch(connection, *statement)
        except Exception as error:
            raise self._failed(error) from error

    def _add(self, namespace: str, jobs: Sequence[NewJob]) -> _Statement:
        return self._statement(_ADD, "{2}", wakes=True), [namespace, _json(adding.as_json(jobs, joined=True))]

    def _move(self, namespace: str, worker: str, move: Move) -> _Statement:
        told = moving.as_dict(move, joined=True)
        if not may_wake([move]):
            told["quiet"] = True
        return self._statement(_MOVE, "{3}", wakes=True), [namespace, worker, _json(told)]

    def _append(self, namespace: str, events: Sequence[NewEvent]) -> _Statement:
        return self._statement(_APPEND, "{2}", wakes=True), [namespace, _json(appending.as_json(events))]

    def _write(self, namespace: str, write: ScheduleWrite, term: Term) -> _Statement:
        sql = self._statement(_WRITE, "{2}", wakes=schedules.may_wake(write))
        return sql, [namespace, _json(schedules.as_dict(write, term))]

    def _statement(self, template: str, last: str, *, wakes: bool) -> str:
        """The statement with its places still open, as {0} and so on: each driver has its own marks."""
        channel = self._address.channel(0).removesuffix("0")
        wake = f"'{channel}' || n.id || ' {_SENDER}'" if wakes and self._address.notify else "NULL"
        return self._address.rendered(template.replace(last, "\0")).replace("\0", wake)

    def _failed(self, error: Exception) -> Exception:
        if sqlstate(error) in {"40001", "40P01"}:
            return StoreUnavailable(
                f"{self._address.place}: {error}; roll the transaction back and do it again from its start"
            )
        answer = translated(error, self._address.place, sent=False)
        if isinstance(answer, SchemaMismatch):
            return SchemaMismatch(f"{answer}, unless the connection given is to another database")
        if isinstance(answer, OutcomeUnknown):
            return StoreUnavailable(str(answer))
        return answer


def _verdict(accepted: bool) -> Verdict:
    return Verdict.ACCEPTED if accepted else Verdict.REFUSED


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

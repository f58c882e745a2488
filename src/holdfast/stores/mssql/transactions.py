"""Work inside a transaction that somebody else commits: the store's own procedures, on their connection."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from holdfast.model.errors import HoldfastError, OutcomeUnknown, SchemaMismatch, StoreUnavailable
from holdfast.model.events import NewEvent
from holdfast.model.records import Added, Move, NewJob, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.stores.mssql import adding, appending, schedules
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.blocking import BlockingConnections
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import Row, Value
from holdfast.stores.mssql.faults import translated
from holdfast.stores.mssql.joining import fetch, fetch_sync
from holdfast.stores.mssql.moving import Batch, verdicts
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.rows import Bytes, as_json
from holdfast.stores.mssql.texts import stored

_Statement: TypeAlias = tuple[str, list[Value]]

_NAMESPACE = "DECLARE @ns int; EXEC holdfast.namespace_v1 ?, @ns OUTPUT; "
_ADD = f"{_NAMESPACE}EXEC holdfast.add_v1 @ns, ?, ?"
_MOVE = f"{_NAMESPACE}EXEC holdfast.move_in_v1 @ns, ?, ?, ?, ?"
_APPEND = f"{_NAMESPACE}DECLARE @now bigint = holdfast.now_v1(); EXEC holdfast.append_v1 @ns, @now, ?, ?"
_WRITE = (
    f"{_NAMESPACE}DECLARE @is_accepted bit; "
    "EXEC holdfast.write_in_v1 @ns, ?, ?, ?, ?, ?, ?, ?, @is_accepted OUTPUT; SELECT @is_accepted"
)


class MssqlTransactions:
    """Work on connections of callers, and transactions on connections of our own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._databases: WeakKeyDictionary[asyncio.AbstractEventLoop, Database] = WeakKeyDictionary()
        self._blocking = BlockingConnections(address)

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        return adding.answers(jobs, self._told_sync(connection, _add(namespace, jobs))) if jobs else []

    async def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        return adding.answers(jobs, await self._told(connection, _add(namespace, jobs))) if jobs else []

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        [[[letters]]] = self._told_sync(connection, _move(namespace, worker, move))
        return verdicts(letters)[0]

    async def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        [[[letters]]] = await self._told(connection, _move(namespace, worker, move))
        return verdicts(letters)[0]

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        if events:
            self._told_sync(connection, _append(namespace, events))

    async def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        if events:
            await self._told(connection, _append(namespace, events))

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return _verdict(self._told_sync(connection, _write(namespace, write, term)))

    async def write_in(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return _verdict(await self._told(connection, _write(namespace, write, term)))

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Any]:
        loop = asyncio.get_running_loop()
        database = self._databases.get(loop)
        if database is None:
            database = self._databases[loop] = Database(self._address)
        async with database.begin() as transaction:
            yield transaction

    @contextmanager
    def begin_sync(self) -> Generator[Any]:
        """A connection of the driver that the address names."""
        with self._blocking.lent() as connection:
            connection.begin()
            yield connection.raw
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

    def _told_sync(self, connection: Any, statement: _Statement) -> list[list[Row]]:
        sql, args = statement
        try:
            return fetch_sync(connection, rendered(sql, self._address), args)
        except Exception as error:
            raise self._failed(error) from error

    async def _told(self, connection: Any, statement: _Statement) -> list[list[Row]]:
        sql, args = statement
        try:
            return await fetch(connection, rendered(sql, self._address), args)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Exception:
        is_ours = isinstance(error, HoldfastError)
        answer = error if is_ours else translated(error, self._address.place, sent=False)
        if isinstance(answer, StoreUnavailable | OutcomeUnknown):
            return StoreUnavailable(f"{answer}; roll the transaction back and do it again from its start")
        if isinstance(answer, SchemaMismatch):
            return SchemaMismatch(f"{answer}, unless the connection given is to another database")
        return answer


def _add(namespace: str, jobs: Sequence[NewJob]) -> _Statement:
    held = Bytes()
    return _ADD, [namespace, as_json(adding.as_dicts(jobs, held, joined=True)), held.whole()]


def _move(namespace: str, worker: str, move: Move) -> _Statement:
    batch = Batch([move], joined=True)
    return _MOVE, [namespace, stored(worker), batch.moves, batch.bytes, batch.texts]


def _append(namespace: str, events: Sequence[NewEvent]) -> _Statement:
    held = Bytes()
    return _APPEND, [namespace, as_json(appending.as_dicts(events, held)), held.whole()]


def _write(namespace: str, write: ScheduleWrite, term: Term) -> _Statement:
    writes, jobs, events, held = schedules.sent([write], joined=True)
    return _WRITE, [namespace, term.lock, term.owner, term.token, writes, jobs, events, held]


def _verdict(told: list[list[Row]]) -> Verdict:
    [[[is_accepted]]] = told
    return Verdict.ACCEPTED if is_accepted else Verdict.REFUSED

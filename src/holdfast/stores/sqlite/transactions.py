"""Work inside a transaction that somebody else commits, with the very code of the session's own."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.model.errors import ConfigurationError
from holdfast.model.events import NewEvent
from holdfast.model.records import Added, Move, NewJob, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.stores.sqlite.adding import add
from holdfast.stores.sqlite.address import Address
from holdfast.stores.sqlite.appending import append
from holdfast.stores.sqlite.clock import AnchoredClock, Clock
from holdfast.stores.sqlite.connection import connect
from holdfast.stores.sqlite.faults import translated
from holdfast.stores.sqlite.held import HeldConnection
from holdfast.stores.sqlite.joining import plain, run_on
from holdfast.stores.sqlite.moving import apply_moves
from holdfast.stores.sqlite.namespaces import make_namespace
from holdfast.stores.sqlite.schedules import write_schedule_in
from holdfast.stores.sqlite.statements import statements
from holdfast.stores.sqlite.transaction import Transaction

T = TypeVar("T")


class SqliteTransactions:
    """Work on connections of callers. Needs no session: everything happens on their connection."""

    def __init__(self, address: Address, clock: Clock | None) -> None:
        self._address = address
        self._clock = clock
        self._anchored: AnchoredClock | None = None

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        return self._work(plain(connection), namespace, lambda tx: add(tx, jobs))

    async def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        return await self._work_on(connection, namespace, lambda tx: add(tx, jobs))

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return self._work(plain(connection), namespace, lambda tx: apply_moves(tx, worker, [move])[0])

    async def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return await self._work_on(connection, namespace, lambda tx: apply_moves(tx, worker, [move])[0])

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        self._work(plain(connection), namespace, lambda tx: append(tx, events))

    async def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        await self._work_on(connection, namespace, lambda tx: append(tx, events))

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return self._work(plain(connection), namespace, lambda tx: write_schedule_in(tx, write, term))

    async def write_in(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return await self._work_on(connection, namespace, lambda tx: write_schedule_in(tx, write, term))

    @contextmanager
    def begin_sync(self) -> Generator[sqlite3.Connection]:
        with closing(self._begin()) as connection:
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            self._commit(connection)

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[HeldConnection]:
        thread = ThreadPoolExecutor(1, "holdfast-transaction")
        beginning = thread.submit(self._begin)
        try:
            held = HeldConnection(await asyncio.wrap_future(beginning), thread)
            yield held
            await held.run(self._commit)
        finally:
            # After whatever is under way on the thread, even if that is a begin for which nobody waits any
            # more: a connection that is merely forgotten may keep its lock for ever.
            ending = thread.submit(_close, beginning)
            thread.shutdown(wait=False)
            if beginning.done():
                await asyncio.shield(asyncio.wrap_future(ending))

    def _begin(self) -> sqlite3.Connection:
        connection = None
        try:
            connection = connect(self._address, patience=self._address.patience)
            connection.text_factory = str
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise translated(error, self._address.path) from error
        return connection

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.commit()
        except sqlite3.Error as error:
            connection.rollback()
            raise translated(error, self._address.path, committing=True) from error

    async def _work_on(self, connection: Any, namespace: str, work: Callable[[Transaction], T]) -> T:
        return await run_on(connection, lambda inner: self._work(inner, namespace, work))

    def _work(self, connection: sqlite3.Connection, namespace: str, work: Callable[[Transaction], T]) -> T:
        factories = connection.text_factory, connection.row_factory
        connection.text_factory, connection.row_factory = bytes, None
        try:
            self._check_file(connection)
            sql = statements(self._address.prefix)
            # Whoever holds the write lock reads nothing that is out of date, and waits for nobody after this.
            connection.execute(sql.get("write_lock").sql)
            tx = Transaction(connection, sql, 0, self._now(connection))
            connection.execute("SAVEPOINT holdfast_join")
            try:
                tx.ns = make_namespace(tx, namespace)
                tx.uses_flows()
                answer = work(tx)
            except BaseException:
                # Whole or not at all, even if the caller catches this and commits.
                if connection.in_transaction:
                    connection.execute("ROLLBACK TO holdfast_join")
                    connection.execute("RELEASE holdfast_join")
                raise
            connection.execute("RELEASE holdfast_join")
            return answer
        except sqlite3.Error as error:
            raise translated(error, self._address.path) from error
        finally:
            connection.text_factory, connection.row_factory = factories

    def _now(self, connection: sqlite3.Connection) -> int:
        if self._clock is not None:
            return self._clock()
        if self._anchored is not None:
            return self._anchored()
        clock = AnchoredClock(self._address.prefix)
        if clock.read_anchor(connection):
            self._anchored = clock
        else:
            # Not kept: the caller may still roll it back.
            clock.set_anchor(connection)
        return clock()

    def _check_file(self, connection: sqlite3.Connection) -> None:
        [path] = [row[2].decode() for row in connection.execute("PRAGMA database_list") if row[1] == b"main"]
        if not path or not Path(path).samefile(self._address.path):
            raise ConfigurationError(
                f"this connection is to {path or 'a database in memory'}, and the store is "
                f"{self._address.path}: a job can only join a transaction of its own file",
                setting="store",
            )


def _close(beginning: Future[sqlite3.Connection]) -> None:
    """Closes the connection, if there is one; that rolls back what was not committed."""
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()

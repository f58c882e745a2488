"""Work inside a transaction that somebody else commits: the server's own `add` and `move`, sent as JSON."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.model.errors import ConfigurationError, LeaseLost, OutcomeUnknown, StoreUnavailable
from holdfast.model.records import Added, Move, NewJob, Verdict
from holdfast.stores.postgres.adding import answers, as_json
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.bell import process_mark
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.driver import APPLICATION
from holdfast.stores.postgres.faults import sqlstate, translated
from holdfast.stores.postgres.joining import fetch, fetch_sync
from holdfast.stores.postgres.moving import as_dict, may_wake

_NAMESPACE = "WITH n AS (SELECT holdfast.namespace_v1({0}) AS id) "
_ADD = _NAMESPACE + "SELECT holdfast.add_json_v1(n.id, NULL, {1}::jsonb, {2}) FROM n"
_MOVE = _NAMESPACE + "SELECT holdfast.move_in_v1(n.id, {1}, {2}::jsonb, {3}) FROM n"


class PostgresTransactions:
    """Adds and moves on connections of callers, and transactions on connections of our own."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._databases: WeakKeyDictionary[asyncio.AbstractEventLoop, Database] = WeakKeyDictionary()
        self._idle: deque[Any] = deque(maxlen=address.pool)
        self._guard = Lock()

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        try:
            told = fetch_sync(connection, *self._add(namespace, jobs))
        except Exception as error:
            raise self._failed(error) from error
        return answers(jobs, told)

    async def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        try:
            told = await fetch(connection, *self._add(namespace, jobs))
        except Exception as error:
            raise self._failed(error) from error
        return answers(jobs, told)

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        try:
            accepted = fetch_sync(connection, *self._move(namespace, worker, move))
        except Exception as error:
            raise self._superseded(error) from error
        return Verdict.ACCEPTED if accepted else Verdict.REFUSED

    async def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        try:
            accepted = await fetch(connection, *self._move(namespace, worker, move))
        except Exception as error:
            raise self._superseded(error) from error
        return Verdict.ACCEPTED if accepted else Verdict.REFUSED

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
        connection = self._borrowed()
        place = self._address.place
        try:
            try:
                yield connection
            except BaseException:
                self._give_back(connection)
                raise
            try:
                connection.commit()
            except Exception as error:
                raise translated(error, place, sent=True) from error
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        """Closes what no transaction uses."""
        database = self._databases.pop(asyncio.get_running_loop(), None)
        if database is not None:
            await database.close()
        while self._idle:
            self._idle.pop().close()

    def _add(self, namespace: str, jobs: Sequence[NewJob]) -> tuple[str, list[str]]:
        return self._statement(_ADD, wakes=True), [namespace, _json(as_json(jobs)), process_mark()]

    def _move(self, namespace: str, worker: str, move: Move) -> tuple[str, list[str]]:
        wakes = may_wake([move])
        args = [namespace, worker, _json(as_dict(move))]
        return self._statement(_MOVE, wakes=wakes), [*args, process_mark()] if wakes else args

    def _statement(self, template: str, *, wakes: bool) -> str:
        """The statement with its places still open, as {0} and so on: each driver has its own marks."""
        last = "{2}" if template is _ADD else "{3}"
        channel = self._address.channel(0).removesuffix("0")
        wake = f"'{channel}' || n.id || ' ' || {last}" if wakes and self._address.notify else "NULL"
        return self._address.rendered(template.replace(last, "\0")).replace("\0", wake)

    def _failed(self, error: Exception) -> Exception:
        if sqlstate(error) in {"40001", "40P01"}:
            return StoreUnavailable(
                f"{self._address.place}: {error}; roll the transaction back and do it again from its start"
            )
        answer = translated(error, self._address.place, sent=False)
        if isinstance(answer, OutcomeUnknown):
            return StoreUnavailable(str(answer))
        return answer

    def _superseded(self, error: Exception) -> Exception:
        """A row that changed under the transaction's snapshot: only another attempt changes it."""
        if sqlstate(error) == "40001":
            return LeaseLost(
                "the attempt no longer owns its job: another one has taken it since this transaction began"
            )
        return self._failed(error)

    def _borrowed(self) -> Any:
        with self._guard:
            while self._idle:
                connection = self._idle.pop()
                if not connection.closed:
                    return connection
        try:
            import psycopg  # noqa: PLC0415  only blocking transactions need it
        except ImportError as error:
            raise ConfigurationError(
                "blocking transactions on PostgreSQL need psycopg: pip install 'psycopg[binary]', "
                "or use `async with ctx.transaction()`",
                setting="store",
            ) from error
        try:
            connection = psycopg.connect(
                self._address.dsn,
                application_name=APPLICATION,
                connect_timeout=max(1, round(self._address.patience)),
            )
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            if not self._address.prepared:
                connection.prepare_threshold = None
            return connection
        except Exception as error:
            raise translated(error, self._address.place, sent=False) from error

    def _give_back(self, connection: Any) -> None:
        try:
            connection.rollback()
        except Exception:  # noqa: BLE001  it is of no more use, and what was raised before counts
            connection.close()
        with self._guard:
            if (
                not connection.closed
                and connection not in self._idle
                and len(self._idle) < self._address.pool
            ):
                self._idle.append(connection)
            elif connection not in self._idle:
                connection.close()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

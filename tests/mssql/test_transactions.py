"""Work inside a transaction of somebody else: what is sent, on which connections, and what is refused."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import msgspec
import pytest
import sqlalchemy

from holdfast.model.errors import ConfigurationError, NotInTransaction, SchemaMismatch, StoreUnavailable
from holdfast.model.events import NewEvent
from holdfast.model.lifecycle import SUCCEEDED, Ending
from holdfast.model.records import Move, NewJob, Verdict
from holdfast.model.scheduling import Term
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.database import Transaction
from holdfast.stores.mssql.driver import Fault
from holdfast.stores.mssql.transactions import MssqlTransactions
from holdfast.testing.conformance.schedules import write
from tests.mssql.recorder import NOW

JOB = NewJob(id="00000000-0000-7000-8000-000000000001", task="send", queue="mail", payload=b"\0p")
MOVE = Move(job=JOB.id, token=3, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=1, result=b"r")
ADDED = [[(NOW,)], [], []]
MARKS = {"pyodbc": "?", "mssql_python": "?", "pytds": "%s", "pymssql": "%s"}


class Cursor:
    """A DB-API cursor that remembers what it executes."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._sets: list[list[Any] | None] = []
        self.is_closed = False

    @property
    def description(self) -> Any:
        return None if self._sets[0] is None else [("x",)]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        if sql == "SELECT @@TRANCOUNT":
            self._sets = [[(self._connection.count,)]]
            return
        self._connection.calls.append((sql, tuple(parameters)))
        if self._connection.error is not None:
            raise self._connection.error
        # A statement without rows is one without columns.
        self._sets = [None, *self._connection.answer]

    def fetchone(self) -> Any:
        return self.fetchall()[0]

    def fetchall(self) -> list[Any]:
        assert self._sets[0] is not None
        return self._sets[0]

    def nextset(self) -> bool:
        self._sets.pop(0)
        return bool(self._sets)

    def close(self) -> None:
        self.is_closed = True


class Connection:
    """A DB-API connection of the package that its class says."""

    autocommit: Any = False
    error: Exception | None = None

    def __init__(self, answer: list[list[Any]] | None = None, count: int = 1) -> None:
        self.answer = ADDED if answer is None else answer
        self.count = count
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.cursors: list[Cursor] = []

    def cursor(self) -> Cursor:
        self.cursors.append(Cursor(self))
        return self.cursors[-1]

    def rollback(self) -> None:
        pass

    commit = close = rollback


def of(package: str, **members: Any) -> type[Connection]:
    return type("Connection", (Connection,), {"__module__": f"{package}.connection", **members})


@pytest.fixture
def transactions() -> MssqlTransactions:
    return MssqlTransactions(parse("mssql+pytds://ann:s3cr3t@localhost/jobs?schema=another_one"))


@pytest.mark.parametrize("package", MARKS)
def test_a_job_is_added_on_the_connection_of_each_driver(
    package: str, transactions: MssqlTransactions
) -> None:
    connection = of(package)()
    [added] = transactions.add_in_sync(connection, "shop", [JOB])
    assert (added.created, added.record.created) == (True, NOW)
    [(sql, (namespace, jobs, held))] = connection.calls
    mark = MARKS[package]
    assert sql == (
        f"DECLARE @ns int; EXEC [another_one].namespace_v1 {mark}, @ns OUTPUT; "
        f"EXEC [another_one].add_v1 @ns, {mark}, {mark}"
    )
    assert namespace == "shop"
    [told] = msgspec.json.decode(jobs)
    assert (told["id"], told["joined"]) == (JOB.id, True)
    # pytds takes bytes for text unless they say that they are none.
    assert type(held) is (type(import_module("pytds").Binary(b"")) if package == "pytds" else bytes)
    assert bytes(held) == JOB.payload
    assert all(cursor.is_closed for cursor in connection.cursors)


def test_what_is_null_is_no_parameter_because_it_has_no_type(transactions: MssqlTransactions) -> None:
    connection = of("pyodbc")([[("a",)]])
    assert transactions.move_in_sync(connection, "shop", "w", MOVE) is Verdict.ACCEPTED
    [(sql, (namespace, worker, moves, held))] = connection.calls
    assert sql.endswith("EXEC [another_one].move_in_v1 @ns, ?, ?, ?, NULL")
    assert (namespace, worker, held) == ("shop", "w", b"r")
    [told] = msgspec.json.decode(moves)
    # One that is part of somebody's transaction is not done at once with others.
    assert (told["job"], told["token"], told["is_plain"]) == (JOB.id, 3, False)


def test_a_refusal_is_told(transactions: MssqlTransactions) -> None:
    assert transactions.move_in_sync(of("pyodbc")([[("r",)]]), "shop", "w", MOVE) is Verdict.REFUSED


def test_events_and_schedules_go_along(transactions: MssqlTransactions) -> None:
    connection = of("pymssql")([])
    transactions.append_in_sync(connection, "shop", [NewEvent(id="e", topic="t", type="y", data=b"d")])
    [(sql, (_, events, held))] = connection.calls
    assert sql.endswith("EXEC [another_one].append_v1 @ns, @now, %s, %s")
    assert (msgspec.json.decode(events)[0]["topic"], held) == ("t", b"d")
    for told, verdict in ((True, Verdict.ACCEPTED), (0, Verdict.REFUSED)):
        writing = of("pyodbc")([[(told,)]])
        term = Term(lock="leader", owner="ann", token=5)
        assert transactions.write_in_sync(writing, "shop", write("a", 2), term) is verdict
        [(sql, (namespace, lock, owner, token, *_))] = writing.calls
        assert sql.endswith("?, ?, ?, ?, NULL, NULL, ?, @is_accepted OUTPUT; SELECT @is_accepted")
        assert (namespace, lock, owner, token) == ("shop", "leader", "ann", 5)


def test_nothing_is_sent_where_there_is_nothing(transactions: MssqlTransactions) -> None:
    connection = of("pyodbc")()
    assert transactions.add_in_sync(connection, "shop", []) == []
    transactions.append_in_sync(connection, "shop", [])
    assert connection.cursors == []


@pytest.mark.parametrize(
    "members",
    [{"autocommit": True}, {"autocommit_state": True, "autocommit": lambda self, on: None}],
    ids=["pyodbc", "pymssql"],
)
def test_a_connection_that_commits_by_itself_needs_a_transaction(
    members: dict[str, Any], transactions: MssqlTransactions
) -> None:
    alone = of("pymssql", **members)(count=0)
    with pytest.raises(NotInTransaction, match="no open transaction"):
        transactions.add_in_sync(alone, "shop", [JOB])
    assert alone.calls == []
    assert transactions.add_in_sync(of("pymssql", **members)(count=1), "shop", [JOB])[0].created


def test_a_connection_that_does_not_begins_one_by_itself(transactions: MssqlTransactions) -> None:
    assert transactions.add_in_sync(of("pyodbc")(count=0), "shop", [JOB])[0].created


@pytest.mark.parametrize("stranger", [of("sqlite3")(), object(), None, of("psycopg")()])
def test_a_stranger_is_refused(stranger: object, transactions: MssqlTransactions) -> None:
    with pytest.raises(ConfigurationError, match="is not a connection to SQL Server"):
        transactions.add_in_sync(stranger, "shop", [JOB])


def test_a_connection_of_sqlalchemy_is_followed_to_that_of_its_driver(
    transactions: MssqlTransactions,
) -> None:
    raw = of("pymssql")()
    engine = sqlalchemy.create_engine(
        "mssql+pymssql://", module=Package, creator=lambda: raw, _initialize=False
    )
    with engine.connect() as connection:
        with pytest.raises(NotInTransaction):
            transactions.add_in_sync(connection, "shop", [JOB])
        with connection.begin():
            assert transactions.add_in_sync(connection, "shop", [JOB])[0].created
    assert len(raw.calls) == 1
    engine.dispose()


class Package:
    """As much of pymssql as SQLAlchemy asks for."""

    paramstyle = "pyformat"
    version_info = (2, 3, 0)
    __version__ = "2.3.0"
    Error = Exception

    @staticmethod
    def Binary(value: bytes) -> bytes:  # noqa: N802
        return value


def test_django_connects_late(transactions: MssqlTransactions) -> None:
    django = type("DatabaseWrapper", (), {"connection": None, "in_atomic_block": False})()
    with pytest.raises(NotInTransaction):
        transactions.add_in_sync(django, "shop", [JOB])
    django.connection = of("pyodbc")()
    assert transactions.add_in_sync(django, "shop", [JOB])[0].created


async def test_async_code_may_give_a_blocking_connection_too(transactions: MssqlTransactions) -> None:
    [added] = await transactions.add_in(of("pyodbc")(), "shop", [JOB])
    assert added.created
    assert await transactions.move_in(of("pyodbc")([[("r",)]]), "shop", "w", MOVE) is Verdict.REFUSED


def test_an_error_of_somebodys_driver_is_theirs(transactions: MssqlTransactions) -> None:
    failing = of("pyodbc", error=ZeroDivisionError("theirs"))()
    with pytest.raises(ZeroDivisionError, match="theirs"):
        transactions.add_in_sync(failing, "shop", [JOB])
    assert all(cursor.is_closed for cursor in failing.cursors)


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault("deadlocked", number=1205), StoreUnavailable, "roll the transaction back"),
        (Fault("gone", is_lost=True), StoreUnavailable, "roll the transaction back"),
        (
            Fault("no such procedure", number=2812),
            SchemaMismatch,
            "unless the connection given is to another",
        ),
    ],
)
async def test_a_fault_in_a_transaction_of_ours_says_what_to_do(
    fault: Fault,
    error: type[Exception],
    words: str,
    transactions: MssqlTransactions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def execute(sql: str, *parameters: Any) -> Any:
        raise fault

    transaction = Transaction.__new__(Transaction)
    monkeypatch.setattr(Transaction, "execute", lambda self, sql, *parameters: execute(sql, *parameters))
    with pytest.raises(error, match=words):
        await transactions.add_in(transaction, "shop", [JOB])

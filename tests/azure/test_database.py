"""What is done inside the database, with a store and a driver that only write down what is asked of them."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from holdfast.azure.database import Database, Prepared, run_sql
from holdfast.azure.users import role_sql, user_sql
from holdfast.azure.wanted import Wanted, allowed
from holdfast.model.errors import (
    ConfigurationError,
    NotProvisioned,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from holdfast.store import Store
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.driver import Fault, Row, Value
from holdfast.stores.mssql.shelf import Shelf
from tests.azure.conftest import SUBSCRIPTION, StubCredential

WANTED = Wanted(subscription=SUBSCRIPTION, server="jobs", identities=("jobs-worker", "it's]"))


class Paper:
    """A store with a schema; its migrations end as the script says."""

    def __init__(self, *outcomes: list[str] | Exception) -> None:
        self.outcomes = list(outcomes)
        self.applied = 0
        self.closed = False
        self.url = ""
        self.migrations: Any = self

    def open(self, url: str) -> Store:
        self.url = url
        return cast(Store, self)

    async def apply(self) -> list[str]:
        self.applied += 1
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        self.closed = True


async def _nothing(batches: Sequence[str]) -> None:
    assert not batches


class Slept:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def prepare(
    paper: Paper, batches: list[str], wanted: Wanted = WANTED, slept: Slept | None = None
) -> Prepared:
    async def write(given: Sequence[str]) -> None:
        batches.extend(given)

    database = Database(wanted, write, open_store=paper.open, waits=(1, 2), sleep=slept or Slept())
    return asyncio.run(database.prepare())


def test_tables_come_first_then_the_role_then_each_user() -> None:
    paper, batches = Paper(["0001_tables"]), list[str]()
    prepared = prepare(paper, batches)
    assert prepared == Prepared(["0001_tables"], ("jobs-worker", "it's]"))
    assert batches == [role_sql(), user_sql("jobs-worker"), user_sql("it's]")]
    assert paper.url == "mssql://jobs.database.windows.net/holdfast"
    assert paper.closed


def test_without_identities_no_statement_of_ours_is_run() -> None:
    batches = list[str]()
    prepare(Paper([]), batches, Wanted(subscription=SUBSCRIPTION, server="jobs"))
    assert batches == []


def test_a_database_that_still_sleeps_is_waited_for() -> None:
    paper, slept = Paper(StoreUnavailable("40613"), OutcomeUnknown("no answer"), ["0001"]), Slept()
    assert prepare(paper, [], slept=slept).applied == ["0001"]
    assert slept.seconds == [1, 2]


def test_waiting_ends_and_says_how_to_go_on() -> None:
    paper = Paper(*(StoreUnavailable("the database is paused.") for _ in range(3)))
    with pytest.raises(NotProvisioned) as caught:
        prepare(paper, [])
    assert str(caught.value) == (
        "all is there in Azure, but could not make the tables in mssql://jobs.database.windows.net/holdfast: "
        "the database is paused. Run this again to go on"
    )
    assert paper.closed


def test_a_firewall_that_refuses_is_not_waited_for() -> None:
    refusal = "Client with IP address '203.0.113.7' is not allowed to access the server. (40615)"
    paper, slept = Paper(ConfigurationError(refusal)), Slept()
    with pytest.raises(NotProvisioned, match=r"203\.0\.113\.7.* Run this again with --allow-ip"):
        prepare(paper, [], slept=slept)
    assert slept.seconds == []


def test_a_rule_that_is_made_but_not_in_force_yet_is_waited_for() -> None:
    refusal = "Client with IP address '203.0.113.7' is not allowed to access the server. (40615)"
    wanted = replace(WANTED, rules=(allowed("203.0.113.0/24"),))
    assert prepare(Paper(ConfigurationError(refusal), ["0001"]), [], wanted).applied == ["0001"]


def test_a_schema_that_is_too_new_is_not_waited_for() -> None:
    paper = Paper(SchemaMismatch("the schema is newer"))
    with pytest.raises(NotProvisioned, match=r"could not make the tables .*: the schema is newer"):
        prepare(paper, [])
    assert paper.applied == 1


def test_a_store_that_cannot_be_opened_is_known_before_anything_is_done() -> None:
    def open_nothing(url: str) -> Store:
        raise ConfigurationError(f"no store is known for {url}", setting="store")

    with pytest.raises(ConfigurationError, match="store: no store is known for mssql://jobs"):
        Database(WANTED, _nothing, open_store=open_nothing)


def test_a_store_without_a_schema_is_refused() -> None:
    paper = Paper()
    paper.migrations = None
    with pytest.raises(ConfigurationError, match="has no schema to make"):
        Database(WANTED, _nothing, open_store=paper.open)


class Line:
    """A connection of a driver; it takes every batch, until it is told what to raise."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.tokens: list[str | None] = []
        self.closed = threading.Event()
        self.fault: Fault | None = None
        self.raw = self
        self.name = "line"

    def connect(self, address: Address, token: str | None, patience: float | None) -> "Line":
        assert (address.user, address.password, address.encrypt) == ("", "", True)
        self.tokens.append(token)
        return self

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[list[Row]]:
        if self.fault is not None:
            raise self.fault
        self.executed.append(sql)
        return []

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def is_alive(self, rested: float) -> bool:
        return True

    def interrupt(self) -> None: ...

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    line = Line()
    monkeypatch.setattr("holdfast.stores.mssql.connecting.driver_named", lambda name: line)
    monkeypatch.setattr("holdfast.stores.mssql.connecting.shelf_of", lambda address: Shelf())
    monkeypatch.setattr("holdfast.stores.mssql.credential._source", lambda client_id: StubCredential())
    return line


def test_statements_are_run_with_a_token_and_without_a_password(line: Line) -> None:
    asyncio.run(_run(["one", "two"]))
    assert line.executed == ["one", "two"]
    assert line.tokens == [StubCredential().get_token().token]


def test_a_statement_that_is_refused_is_told_as_the_store_tells_it(line: Line) -> None:
    line.fault = Fault("Principal 'x' could not be found", number=33130)
    with pytest.raises(StoreError, match=r"jobs.*/holdfast: Principal 'x' could not be found \(33130\)"):
        asyncio.run(_run(["one"]))


async def _run(batches: list[str]) -> None:
    await run_sql(WANTED)(batches)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.stores.mssql.mssql_python_driver", cast(Any, None))
    with pytest.raises(ConfigurationError, match=r"pip install 'holdfast\[sqlserver\]'"):
        run_sql(WANTED)

"""What is done inside the database, with a store and a driver that only write down what is asked of them."""

import asyncio
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from holdfast.azure.database import Database, Prepared, run_sql
from holdfast.azure.errors import NotProvisioned
from holdfast.azure.users import role_sql, user_sql
from holdfast.azure.wanted import Wanted
from holdfast.model.errors import ConfigurationError, SchemaMismatch, StoreUnavailable
from holdfast.store import Store
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


class Slept:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def prepare(
    paper: Paper, batches: list[str], wanted: Wanted = WANTED, slept: Slept | None = None
) -> Prepared:
    def write(given: Sequence[str]) -> None:
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
    paper, slept = Paper(StoreUnavailable("40613"), StoreUnavailable("40613"), ["0001"]), Slept()
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
    paper, slept = Paper(StoreUnavailable(refusal)), Slept()
    with pytest.raises(NotProvisioned, match=r"203\.0\.113\.7.* Run this again with --allow-ip"):
        prepare(paper, [], slept=slept)
    assert slept.seconds == []


def test_a_schema_that_is_too_new_is_not_waited_for() -> None:
    paper = Paper(SchemaMismatch("the schema is newer"))
    with pytest.raises(NotProvisioned, match=r"could not make the tables .*: the schema is newer"):
        prepare(paper, [])
    assert paper.applied == 1


def test_a_store_that_cannot_be_opened_is_known_before_anything_is_done() -> None:
    def open_nothing(url: str) -> Store:
        raise ConfigurationError(f"no store is known for {url}", setting="store")

    with pytest.raises(ConfigurationError, match="store: no store is known for mssql://jobs"):
        Database(WANTED, lambda batches: None, open_store=open_nothing)


def test_a_store_without_a_schema_is_refused() -> None:
    paper = Paper()
    paper.migrations = None
    with pytest.raises(ConfigurationError, match="has no schema to make"):
        Database(WANTED, lambda batches: None, open_store=paper.open)


class Driver:
    """Stands in for mssql-python."""

    class Error(Exception):
        pass

    class OperationalError(Error):
        pass

    def __init__(self) -> None:
        self.connected: list[tuple[str, dict[str, Any]]] = []
        self.executed: list[str] = []
        self.closed = 0
        self.error: Exception | None = None

    def connect(self, address: str, **options: Any) -> Any:
        self.connected.append((address, options))
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1

    def execute(self, batch: str) -> Any:
        if self.error is not None:
            raise self.error
        self.executed.append(batch)
        return SimpleNamespace(close=lambda: None)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    monkeypatch.setitem(sys.modules, "mssql_python", cast(Any, driver))
    return driver


def test_statements_are_run_with_a_token_and_without_a_password(driver: Driver) -> None:
    credential = StubCredential()
    run_sql(WANTED, credential)(["one", "two"])
    ((address, options),) = driver.connected
    assert address == "Server=jobs.database.windows.net;Database=holdfast;Encrypt=yes;"
    assert options == {"autocommit": True, "token_provider": credential}
    assert driver.executed == ["one", "two"]
    assert driver.closed == 1


def test_what_may_pass_is_told_apart_from_what_stays(driver: Driver) -> None:
    driver.error = driver.OperationalError("gone away")
    with pytest.raises(StoreUnavailable, match="gone away"):
        run_sql(WANTED, StubCredential())(["one"])
    driver.error = driver.Error("Principal 'x' could not be found")
    with pytest.raises(NotProvisioned, match="could not be found"):
        run_sql(WANTED, StubCredential())(["one"])
    assert driver.closed == 2


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mssql_python", cast(Any, None))
    with pytest.raises(ConfigurationError, match=r"pip install 'holdfast\[azure,sqlserver\]'"):
        run_sql(WANTED, StubCredential())

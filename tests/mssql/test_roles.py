"""Who may do what: the text, without a server."""

import re

import pytest
from click.testing import CliRunner

from holdfast.azure.users import role_sql
from holdfast.cli.main import cli
from holdfast.model.errors import ConfigurationError
from holdfast.store.schema import Roles
from holdfast.stores.mssql import MssqlStore
from tests.mssql.tsql import batches, calls, procedures, sent, tables, unparsable

URL = "mssql://localhost/jobs"
SCRIPT = MssqlStore.from_url(URL).migrations.roles_as_sql("shop")
ADDS = ("queries.namespace", "queries.add")
READS = ("queries.by_id", "queries.expired", "queries.history", "queries.count", "queries.find")


def granted(role: str, right: str) -> set[str]:
    """The objects on which the role has a right."""
    found = re.findall(
        rf"^GRANT {right} ON OBJECT::\[holdfast\]\.\[(\w+)\] TO \[(\w+)\];$", SCRIPT, re.MULTILINE
    )
    return {name for name, whose in found if whose == role}


def test_the_roles_are_t_sql_that_can_be_run_again() -> None:
    for part in SCRIPT.split("\nGO\n"):
        assert unparsable(part) == ()
    assert SCRIPT.count("CREATE ROLE") == 3
    made = re.findall(r"IF DATABASE_PRINCIPAL_ID\(N'(\w+)'\) IS NULL CREATE ROLE \[(\w+)\];", SCRIPT)
    assert made == [(name, name) for name in ("shop_producer", "shop_worker", "shop_admin")]
    # To grant twice is to grant once.
    rest = [line for line in SCRIPT.splitlines() if not line.startswith(("--", "IF ", "GO"))]
    assert {line.split()[0] for line in rest} == {"GRANT"}


def test_all_that_is_named_is_there() -> None:
    views = re.findall(r"CREATE VIEW holdfast\.(\w+)", "\n".join(batches()))
    assert granted("shop_producer", "EXECUTE") <= {*procedures(), "now_v1"}
    assert granted("shop_producer", "SELECT") <= {*tables(), *views, "step"}


def test_a_producer_may_call_what_adding_needs_and_nothing_else() -> None:
    called = {call.name for place in ADDS for call in calls(sent()[place])}
    called |= {call.name for place, sql in sent().items() if "append" in sql for call in calls(sql)}
    assert granted("shop_producer", "EXECUTE") == called | {"now_v1"}
    assert not called & {"tick_v1", "move_in_v1", "edit_v1", "forget_v1", "prune_v1"}


def test_a_producer_may_read_what_reading_needs_and_write_nothing_itself() -> None:
    text = "\n".join(sent()[place] for place in READS)
    read = set(re.findall(r"(?:FROM|JOIN) holdfast\.(\w+)", text)) | {"live", "finished", "jobs"}
    assert read <= granted("shop_producer", "SELECT")
    assert not re.search(r"(?:INSERT|UPDATE|DELETE|SCHEMA::)[^\n]*\[shop_producer\]", SCRIPT)


def test_a_worker_may_call_every_procedure_and_write_every_table_of_the_schema() -> None:
    line = "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON SCHEMA::[holdfast] TO [shop_worker];"
    assert line in SCRIPT
    assert not re.search(r"(?:ALTER|CONTROL|CREATE TABLE)[^\n]* TO \[shop_worker\]", SCRIPT)


def test_an_administrator_may_change_the_schema_and_no_other() -> None:
    assert "GRANT CONTROL ON SCHEMA::[holdfast] TO [shop_admin];" in SCRIPT
    assert not re.search(r"CONTROL TO|db_owner|ON DATABASE", SCRIPT)


def test_workers_in_azure_have_the_role_of_the_store() -> None:
    assert role_sql() in MssqlStore.from_url(URL).migrations.roles_as_sql("holdfast")


def test_they_are_for_the_schema_of_the_url() -> None:
    store = MssqlStore.from_url(f"{URL}?schema=another_one")
    assert isinstance(store.migrations, Roles)
    script = store.migrations.roles_as_sql("shop")
    assert "[holdfast]" not in script
    assert script.replace("another_one", "holdfast") == SCRIPT


@pytest.mark.parametrize("prefix", ["a b", "Shop", "1a", "a]b", "a'b", "x" * 92, "ä"])
def test_a_prefix_that_needs_quotes_is_refused(prefix: str) -> None:
    migrations = MssqlStore.from_url(URL).migrations
    with pytest.raises(ConfigurationError, match="names of roles"):
        migrations.roles_as_sql(prefix)


def test_the_command_line_prints_them() -> None:
    options = ["migrate", "--print-roles", "--role-prefix", "shop", "--store", URL]
    assert CliRunner().invoke(cli, options, catch_exceptions=False).output == SCRIPT

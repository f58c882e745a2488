"""`holdfast azure`, from the command line down to the stand-in for Azure."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from holdfast.azure.cloud import Cloud, Credential
from holdfast.azure.database import Database, run_sql
from holdfast.azure.wanted import Wanted
from holdfast.cli.main import cli
from holdfast.model.errors import ConfigurationError, StoreUnavailable
from holdfast.store import Store
from tests.azure.arm import Fault, refusal
from tests.azure.conftest import OBJECT, SECRET, SUBSCRIPTION, TENANT, Azure
from tests.azure.test_database import Paper

PROVISION = ("azure", "provision", "--subscription-id", SUBSCRIPTION)
DESTROY = ("azure", "destroy", "--subscription-id", SUBSCRIPTION)
GROUP = "/resourceGroups/cristp-reltaskexec"
SERVER = f"{GROUP}/providers/Microsoft.Sql/servers/cristp-reltaskexec-9423be01b5"
URL = "mssql://cristp-reltaskexec-9423be01b5.database.windows.net/holdfast"

Invoke = Callable[..., Result]


@pytest.fixture
def paper() -> Paper:
    return Paper(["0001_tables"], [], [])


@pytest.fixture
def batches() -> list[str]:
    return []


@pytest.fixture
def invoke(azure: Azure, paper: Paper, batches: list[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs a command on the stand-in; nothing that is shown may be secret."""

    async def write(given: Sequence[str]) -> None:
        batches.extend(given)

    def database(wanted: Wanted) -> Database:
        return Database(wanted, write, open_store=paper.open, waits=())

    def cloud(login: Credential, subscription: str) -> Cloud:
        return azure.cloud(login, subscription)

    monkeypatch.setattr("holdfast.cli.azure._credential", lambda: azure.credential)
    monkeypatch.setattr("holdfast.cli.azure._cloud", cloud)
    monkeypatch.setattr("holdfast.cli.azure._database", database)

    def run(*arguments: str, typed: str | None = None) -> Result:
        result = CliRunner().invoke(cli, arguments, input=typed)
        assert SECRET not in result.output
        assert "\x1b" not in result.output
        return result

    return run


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_the_plan_is_shown_and_a_no_changes_nothing(azure: Azure, invoke: Invoke, paper: Paper) -> None:
    result = invoke(*PROVISION, "--allow-ip", "203.0.113.7", "--identity", "jobs-worker", typed="n\n")
    assert result.exit_code == 1
    shown = unwrapped(result.stdout)
    assert "resource group cristp-reltaskexec will be made in westus2" in shown
    assert (
        "server cristp-reltaskexec-9423be01b5 will be made Entra ID sign-in only, "
        "administrator dev@example.org" in shown
    )
    assert "firewall rule allow-203-0-113-7 will be made" in shown
    assert "user jobs-worker made if missing" in shown
    assert result.stderr.endswith("holdfast: nothing was changed\n")
    assert azure.arm.changes() == []
    assert paper.applied == 0


def test_nobody_to_ask_is_no_yes(azure: Azure, invoke: Invoke) -> None:
    assert invoke(*PROVISION, typed="").exit_code == 130
    assert azure.arm.changes() == []


def test_a_yes_makes_all_and_ends_with_the_store(
    azure: Azure, invoke: Invoke, paper: Paper, batches: list[str]
) -> None:
    result = invoke(*PROVISION, "--allow-azure-services", "--identity", "jobs-worker", typed="y\n")
    assert result.exit_code == 0, result.output
    assert f"made server {SERVER.rpartition('/')[2]}\n" in result.stdout
    assert "applied 0001_tables\n" in result.stdout
    assert "user jobs-worker is there\n" in result.stdout
    assert unwrapped(result.stdout).endswith(f"All is there. store {URL}")
    assert azure.arm.resources[SERVER]["properties"]["administrators"]["sid"] == OBJECT
    assert (paper.url, paper.applied) == (URL, 1)
    assert any("CREATE USER [jobs-worker] FROM EXTERNAL PROVIDER" in batch for batch in batches)


def test_a_second_run_makes_nothing_and_says_so(azure: Azure, invoke: Invoke) -> None:
    arguments = (*PROVISION, "--allow-azure-services", "--yes", "--json")
    first = json.loads(invoke(*arguments).stdout)
    assert {each["done"] for each in first["resources"]} == {"made"}
    assert first["applied"] == ["0001_tables"]
    before = azure.arm.changes()
    second = json.loads(invoke(*arguments).stdout)
    assert {each["done"] for each in second["resources"]} == {"nothing"}
    assert second["applied"] == []
    assert second["store"] == first["store"] == URL
    assert second["administrator"] == "dev@example.org"
    assert azure.arm.changes() == before


def test_a_failure_half_way_is_one_line_and_the_next_run_completes(azure: Azure, invoke: Invoke) -> None:
    database = f"{SERVER}/databases/holdfast"
    azure.arm.failing[database] = refusal("InternalServerError", "Something broke.")
    result = invoke(*PROVISION, "--yes")
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if "could not" in line]
    assert "could not make database holdfast: InternalServerError: Something broke. Made before that" in line
    azure.arm.failing.clear()
    assert invoke(*PROVISION, "--yes").exit_code == 0
    assert database in azure.arm.resources


def test_tables_that_cannot_be_made_are_said_after_the_rest_is_there(
    azure: Azure, invoke: Invoke, paper: Paper
) -> None:
    paper.outcomes[0] = StoreUnavailable("nobody answers")
    result = invoke(*PROVISION, "--yes")
    assert result.exit_code == 1
    assert "all is there in Azure, but could not make the tables" in result.stderr
    assert SERVER in azure.arm.resources


def test_a_store_that_cannot_be_opened_ends_it_before_azure_is_asked(
    azure: Azure, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def database(wanted: Wanted) -> Database:
        def nothing(url: str) -> Store:
            raise ConfigurationError(f"no store is known for {url}", setting="store")

        return Database(wanted, run_sql(wanted), open_store=nothing)

    monkeypatch.setattr("holdfast.cli.azure._database", database)
    result = invoke(*PROVISION, "--yes")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"holdfast: store: no store is known for {URL}")
    assert azure.arm.requests == []


def test_a_dry_run_prints_the_template_and_asks_nobody(azure: Azure, invoke: Invoke) -> None:
    result = invoke(
        *PROVISION,
        *("--dry-run", "--location", "West US 3", "--allow-ip", "203.0.113.0/24", "--no-free"),
        *("--admin-login", "ops", "--admin-object-id", OBJECT, "--admin-type", "Group"),
    )
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["$schema"].endswith("deploymentTemplate.json#")
    given = {name: each.get("defaultValue") for name, each in document["parameters"].items()}
    assert given["location"] == "westus3"
    assert given["serverName"] == "cristp-reltaskexec-9423be01b5"
    assert given["administratorType"] == "Group"
    assert given["administratorTenantId"] == "[subscription().tenantId]"
    assert given["useFreeLimit"] is False
    assert given["firewallRules"][0]["endIpAddress"] == "203.0.113.255"
    assert result.stderr == ""
    assert azure.arm.requests == []
    assert azure.credential.scopes == []


def test_a_dry_run_without_an_administrator_says_that_he_is_left_open(azure: Azure, invoke: Invoke) -> None:
    result = invoke(*PROVISION, "--dry-run")
    assert "defaultValue" not in json.loads(result.stdout)["parameters"]["administratorSid"]
    assert "the administrator is left open" in result.stderr
    assert azure.credential.scopes == []


def test_a_dry_run_needs_no_azure_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "azure.identity",
        "azure.core.exceptions",
        "azure.mgmt.sql",
        "azure.mgmt.resource.resources",
    ):
        monkeypatch.setitem(sys.modules, name, cast(Any, None))
    assert CliRunner().invoke(cli, (*PROVISION, "--dry-run")).exit_code == 0
    result = CliRunner().invoke(cli, (*DESTROY, "--yes", "cristp-reltaskexec"))
    assert result.exit_code == 2
    assert "the azure commands need the package azure.identity: pip install 'holdfast[azure" in result.stderr


def test_who_is_not_signed_in_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    environment = {**os.environ, "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"}
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast", *PROVISION, "--yes"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("holdfast: could not sign in: ")
    assert "az login" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_an_administrator_who_is_named_is_the_one(azure: Azure, invoke: Invoke) -> None:
    other = "12121212-3434-5656-7878-909090909090"
    named = ("--admin-login", "ops", "--admin-object-id", other, "--admin-type", "Group")
    assert invoke(*PROVISION, "--yes", *named).exit_code == 0
    made = azure.arm.resources[SERVER]["properties"]["administrators"]
    assert (made["login"], made["sid"], made["principalType"]) == ("ops", other, "Group")
    assert made["tenantId"] == TENANT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--subscription-id", "mine"), "subscription-id: 'mine' is not an id"),
        (("--server", "No_Good"), "server: 'No_Good' is not"),
        (("--allow-ip", "home"), "allow-ip: 'home' is neither an IPv4 address"),
        (("--admin-login", "ops"), "--admin-login and --admin-object-id go together."),
        (("--identity", ""), "identity: '' is not a name"),
        (("--json",), "--json asks no questions; add --yes."),
    ],
)
def test_wrong_use_is_exit_code_2_and_asks_nobody(
    azure: Azure, invoke: Invoke, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke(*PROVISION, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"holdfast: {message}")
    assert azure.arm.requests == []


def test_the_subscription_has_to_be_given(invoke: Invoke) -> None:
    for command in ("provision", "destroy"):
        result = invoke("azure", command)
        assert result.exit_code == 2
        assert "Missing option '--subscription-id'" in result.stderr


def test_without_a_rule_the_plan_warns(invoke: Invoke) -> None:
    assert "no address is allowed to connect" in invoke(*PROVISION, "--yes").stderr
    assert "no address is allowed" not in invoke(*PROVISION, "--yes", "--allow-ip", "203.0.113.7").stderr


def test_destroying_shows_what_is_there_and_a_wrong_name_does_nothing(azure: Azure, invoke: Invoke) -> None:
    invoke(*PROVISION, "--yes")
    before = azure.arm.changes()
    for typed in ("cristp-RelTaskExec\n", "y\n", "\n"):
        result = invoke(*DESTROY, typed=typed)
        assert result.exit_code == 1
        assert "cristp-reltaskexec-9423be01b5" in result.stdout
        assert "nothing was deleted" in result.stderr
    assert invoke(*DESTROY, "--yes", "other").exit_code == 1
    assert azure.arm.changes() == before
    assert SERVER in azure.arm.resources


def test_destroying_with_the_name_deletes_all(azure: Azure, invoke: Invoke) -> None:
    invoke(*PROVISION, "--yes")
    result = invoke(*DESTROY, typed="cristp-reltaskexec\n")
    assert result.exit_code == 0
    assert "was not made by this command" not in result.stderr
    assert azure.arm.changes()[-1] == ("DELETE", GROUP)
    assert azure.arm.resources == {}
    assert result.stdout.endswith("Resource group cristp-reltaskexec is gone, with 2 resources.\n")


def test_destroying_again_is_no_error(azure: Azure, invoke: Invoke) -> None:
    result = invoke(*DESTROY, "--yes", "cristp-reltaskexec", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {"group": "cristp-reltaskexec", "deleted": []},
    )
    assert azure.arm.changes() == []


def test_a_group_of_others_is_named_as_such(azure: Azure, invoke: Invoke) -> None:
    azure.arm.resources[GROUP] = {"location": "westus2", "tags": None}
    result = invoke(*DESTROY, typed="no\n")
    assert "was not made by this command" in result.stderr
    assert "Resource group cristp-reltaskexec is empty." in result.stdout


def test_a_group_that_is_locked_stays(azure: Azure, invoke: Invoke) -> None:
    invoke(*PROVISION, "--yes")
    azure.arm.faults.append(Fault("DELETE", GROUP, 409, refusal("ScopeLocked", "It is locked.")))
    result = invoke(*DESTROY, "--yes", "cristp-reltaskexec")
    assert result.exit_code == 1
    assert "ScopeLocked: It is locked; a lock in Azure forbids it" in result.stderr
    assert GROUP in azure.arm.resources

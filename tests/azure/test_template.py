"""The ARM template: one source with what the command sends, and never a password."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.azure.template import (
    DATABASES,
    RULES,
    SERVERS,
    database_of,
    filled,
    parameters_file,
    rule_body,
    server_of,
    template,
    values,
)
from holdfast.azure.wanted import Administrator, Wanted, allowed, default_server

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "azure"
ZERO = "00000000-0000-0000-0000-000000000000"
EXAMPLE = Wanted(
    subscription=ZERO,
    server=default_server(ZERO, "cristp-reltaskexec"),
    rules=(allowed("203.0.113.7"),),
)
EXAMPLE_ADMINISTRATOR = Administrator("developer@example.org", ZERO, ZERO)
PARAMETER = re.compile(r"parameters\('(\w+)'\)")


def written(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def resource(kind: str) -> dict[str, Any]:
    found = [each for each in template()["resources"] if each["type"] == kind]
    assert len(found) == 1
    return dict(found[0])


def resolved(value: Any, given: dict[str, Any]) -> Any:
    """The value with whole parameters put in; enough for the bodies of server and database."""
    if isinstance(value, dict):
        return {name: resolved(each, given) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    if value == "[if(parameters('useFreeLimit'), 'AutoPause', null())]":
        return "AutoPause" if given["useFreeLimit"] else None
    whole = re.fullmatch(r"\[parameters\('(\w+)'\)\]", value)
    return given[whole[1]] if whole else value


def test_the_template_that_is_shipped_is_the_one_in_the_code() -> None:
    assert (FOLDER / "azuredeploy.json").read_text() == written(template()), "write template() there as JSON"


def test_the_parameters_that_are_shipped_fit_the_template() -> None:
    shipped = (FOLDER / "azuredeploy.parameters.example.json").read_text()
    assert shipped == written(parameters_file(EXAMPLE, EXAMPLE_ADMINISTRATOR))
    given = json.loads(shipped)["parameters"]
    declared = template()["parameters"]
    assert given.keys() <= declared.keys()
    required = {name for name, each in declared.items() if "defaultValue" not in each}
    assert required == {"serverName", "administratorLogin", "administratorSid"}
    assert required <= given.keys()


def test_the_template_has_what_azure_asks_of_every_template() -> None:
    document = template()
    assert document["$schema"].endswith("/2019-04-01/deploymentTemplate.json#")
    assert document["contentVersion"] == "1.0.0.0"
    assert [each["type"] for each in document["resources"]] == [SERVERS, DATABASES, RULES]
    for each in document["resources"]:
        assert each["apiVersion"] == "2023-08-01"
        assert {"type", "apiVersion", "name", "properties"} <= each.keys()


def test_there_is_no_password_and_no_login_of_the_servers_own() -> None:
    assert "password" not in written(template()).lower()
    properties = resource(SERVERS)["properties"]
    assert "administratorLogin" not in properties
    assert properties["administrators"]["azureADOnlyAuthentication"] is True
    assert properties["administrators"]["administratorType"] == "ActiveDirectory"
    assert properties["minimalTlsVersion"] == "1.2"


def test_database_and_rules_wait_for_the_server_which_waits_for_nothing() -> None:
    after = ["[resourceId('Microsoft.Sql/servers', parameters('serverName'))]"]
    assert resource(DATABASES)["dependsOn"] == after
    assert resource(RULES)["dependsOn"] == after
    assert "dependsOn" not in resource(SERVERS)


def test_a_child_is_named_below_its_server() -> None:
    for kind in (DATABASES, RULES):
        assert resource(kind)["name"].startswith("[concat(parameters('serverName'), '/', ")


def test_every_parameter_is_declared_and_used() -> None:
    document = template()
    used = set(PARAMETER.findall(json.dumps([document["resources"], document["outputs"]])))
    assert used == document["parameters"].keys()


@pytest.mark.parametrize("is_free", [True, False])
def test_the_command_sends_what_the_template_says(is_free: bool) -> None:
    wanted = Wanted(subscription=ZERO, server="jobs", group="jobs", is_free=is_free)
    given = {**values(wanted, EXAMPLE_ADMINISTRATOR), "createServer": True, "createDatabase": True}
    for kind, sent in (
        (SERVERS, server_of(wanted, EXAMPLE_ADMINISTRATOR)),
        (DATABASES, database_of(wanted)),
    ):
        declared = resolved(resource(kind), given)
        declared["properties"] = {
            name: value for name, value in declared["properties"].items() if value is not None
        }
        assert {name: declared[name] for name in sent} == sent
    assert rule_body("1.2.3.4", "1.2.3.9")["properties"].keys() == resource(RULES)["properties"].keys()


def test_a_database_that_is_not_free_says_nothing_of_the_limit_but_that() -> None:
    body = database_of(Wanted(subscription=ZERO, server="jobs", is_free=False))
    assert body["properties"]["useFreeLimit"] is False
    assert "freeLimitExhaustionBehavior" not in body["properties"]


def test_a_filled_template_has_what_is_wanted_as_its_defaults() -> None:
    declared = filled(EXAMPLE, EXAMPLE_ADMINISTRATOR)["parameters"]
    assert declared["serverName"]["defaultValue"] == EXAMPLE.server
    assert declared["administratorLogin"]["defaultValue"] == "developer@example.org"
    assert declared["firewallRules"]["defaultValue"] == [
        {"name": "allow-203-0-113-7", "startIpAddress": "203.0.113.7", "endIpAddress": "203.0.113.7"}
    ]


def test_a_filled_template_leaves_an_unknown_administrator_to_be_given() -> None:
    declared = filled(EXAMPLE, None)["parameters"]
    assert "defaultValue" not in declared["administratorLogin"]
    assert "defaultValue" not in declared["administratorSid"]


def test_a_name_that_looks_like_an_expression_stays_a_name() -> None:
    declared = filled(EXAMPLE, Administrator("[reference('x')]", ZERO, ZERO))["parameters"]
    assert declared["administratorLogin"]["defaultValue"] == "[[reference('x')]"

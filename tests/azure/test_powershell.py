"""The scripts are read by a PowerShell grammar, and held to the template; nothing here can run them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Node, Parser

from holdfast.azure.template import TAGS, template
from holdfast.azure.wanted import ALLOW_AZURE, DATABASE, GROUP, LOCATION, PRINCIPALS

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "azure"
SCRIPTS = sorted(FOLDER.glob("*.ps1"))
PARSER = Parser(Language(tree_sitter_powershell.language()))


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def errors(script: str) -> list[str]:
    """Where the text is not PowerShell."""
    tree = PARSER.parse(script.encode())
    return [
        f"line {node.start_point.row + 1}: {'missing ' if node.is_missing else ''}{node.type}"
        for node in nodes(tree.root_node)
        if node.is_error or node.is_missing
    ]


def commands(script: str) -> set[str]:
    tree = PARSER.parse(script.encode())
    return {node.text.decode() for node in nodes(tree.root_node) if node.type == "command_name" and node.text}


def parameters(script: str) -> dict[str, str]:
    """The parameters of the script itself, each as it is written with what stands before it."""
    tree = PARSER.parse(script.encode())
    block = next(node for node in nodes(tree.root_node) if node.type == "param_block")
    found: dict[str, str] = {}
    for node in nodes(block):
        if node.type == "script_parameter" and node.text:
            text = node.text.decode()
            name = re.search(r"\$(\w+)\s*(=|$)", text)
            assert name, text
            found[name[1]] = text
    return found


def test_there_is_a_script_for_each_way() -> None:
    assert [script.name for script in SCRIPTS] == ["destroy.ps1", "provision.ps1"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_script_is_powershell(script: Path) -> None:
    assert errors(script.read_text()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        ("param(", "param"),
        ("[Parameter(Mandatory)]", "[Parameter(Mandatory]"),
        ("$ErrorActionPreference = 'Stop'", "$ErrorActionPreference = 'Stop"),
        ("if (-not $group) {", "if (-not $group {"),
    ],
)
def test_a_broken_script_is_seen_as_such(script: Path, whole: str, broken: str) -> None:
    text = script.read_text()
    assert whole in text
    assert errors(text.replace(whole, broken, 1)) != []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_subscription_has_to_be_given_and_the_rest_is_as_in_the_command(script: Path) -> None:
    taken = parameters(script.read_text())
    mandatory = [name for name, text in taken.items() if "Mandatory" in text]
    assert mandatory == ["SubscriptionId"]
    assert f"= '{GROUP}'" in taken["ResourceGroup"]


def test_provisioning_has_the_defaults_of_the_command() -> None:
    taken = parameters((FOLDER / "provision.ps1").read_text())
    assert f"= '{LOCATION}'" in taken["Location"]
    assert f"= '{DATABASE}'" in taken["DatabaseName"]
    for kind in PRINCIPALS:
        assert f"'{kind}'" in taken["AdministratorType"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_no_password_is_named_or_taken(script: Path) -> None:
    assert not re.search(r"password|securestring|pscredential", script.read_text(), re.IGNORECASE)


def test_the_script_gives_the_template_every_parameter_and_no_other() -> None:
    text = (FOLDER / "provision.ps1").read_text()
    block = re.search(r"-TemplateParameterObject @\{(.*?)\n    \}", text, re.DOTALL)
    assert block
    given = set(re.findall(r"^\s+(\w+)\s+=", block[1], re.MULTILINE))
    assert given == template()["parameters"].keys()
    assert "'azuredeploy.json'" in text


def test_what_both_ways_make_has_the_same_names() -> None:
    text = (FOLDER / "provision.ps1").read_text()
    rule = ALLOW_AZURE
    assert f"name = '{rule.name}'; startIpAddress = '{rule.start}'; endIpAddress = '{rule.end}'" in text
    ((tag, value),) = TAGS.items()
    assert f"@{{ '{tag}' = '{value}' }}" in text


def test_only_modules_that_are_required_are_used() -> None:
    ours = {"Get-DefaultServerName"}
    core = {"Set-StrictMode", "ForEach-Object", "Format-Table", "Out-Host", "Out-Null", "Join-Path"}
    core |= {"Write-Output", "Read-Host", "Where-Object"}
    az = {
        "Az.Accounts": {"Set-AzContext"},
        "Az.Resources": {
            *("Get-AzADUser", "Get-AzResource", "Get-AzResourceGroup", "New-AzResourceGroup"),
            *("New-AzResourceGroupDeployment", "Remove-AzResourceGroup"),
        },
        "Az.Sql": {
            *("Get-AzSqlServer", "Get-AzSqlDatabase", "Get-AzSqlServerActiveDirectoryOnlyAuthentication"),
        },
    }
    for script in SCRIPTS:
        text = script.read_text()
        asked = re.search(r"^#Requires -Modules (.+)$", text, re.MULTILINE)
        assert asked
        allowed = set().union(ours, core, *(az[name] for name in asked[1].split(", ")))
        assert commands(text) <= allowed


def test_destroying_compares_the_typed_name_letter_by_letter_before_it_removes() -> None:
    text = (FOLDER / "destroy.ps1").read_text()
    assert text.index("-cne $ResourceGroup") < text.index("Remove-AzResourceGroup")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_no_refusal_is_taken_for_something_that_is_not_there(script: Path) -> None:
    text = script.read_text()
    assert "$ErrorActionPreference = 'Stop'" in text
    assert not re.search(r"-ErrorAction|-EA\b|\bcatch\b", text, re.IGNORECASE)


def test_what_would_be_made_is_looked_for_in_the_subscription_that_was_given() -> None:
    """`-WhatIf` reaches every command of a script that does not say otherwise."""
    text = (FOLDER / "provision.ps1").read_text()
    assert "Set-AzContext -Subscription $SubscriptionId -WhatIf:$false" in text

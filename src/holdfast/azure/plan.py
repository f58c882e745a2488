"""What is there, what is missing, and what would be done about it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import cast

from holdfast.azure.cloud import Cloud
from holdfast.azure.template import Json, database_of, group_body, rule_body, server_of
from holdfast.azure.wanted import ALLOW_AZURE, Administrator, Rule, Wanted
from holdfast.model.errors import NotProvisioned


class State(StrEnum):
    """How one thing stands."""

    THERE = "is there"
    MISSING = "will be made"
    DIFFERENT = "will be changed"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is wanted. `act` makes it so; there is none when nothing is to be done."""

    what: str
    name: str
    state: State
    note: str = ""
    act: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is wanted in Azure, in the order in which it has to be made."""

    steps: tuple[Step, ...]
    administrator: str

    @property
    def open(self) -> list[Step]:
        """What is to be done."""
        return [step for step in self.steps if step.act is not None]


def survey(cloud: Cloud, wanted: Wanted, administrator: Administrator, *, is_asked: bool = False) -> Plan:
    """Looks at what is there and changes nothing.

    `is_asked` says that the administrator was named, and is not merely whoever runs this: a server that has
    another one is then not what is wanted. What exists is never changed, but for firewall rules of ours.
    """
    group = cloud.group(wanted.group)
    if group is not None and _in(group, "properties", "provisioningState") == "Deleting":
        raise NotProvisioned(
            f"resource group {wanted.group} is being deleted; run this again when it is gone, or name another"
        )
    server = None if group is None else cloud.server(wanted.group, wanted.server)
    if server is None:
        _check_free(cloud, wanted)
    else:
        _check_server(wanted, server, administrator if is_asked else None)
    steps = (
        _group_step(cloud, wanted, group),
        _server_step(cloud, wanted, administrator, server),
        _database_step(cloud, wanted, server),
        *_rule_steps(cloud, wanted, server),
    )
    login = (
        administrator.login if server is None else str(_in(server, "properties", "administrators", "login"))
    )
    return Plan(steps, login)


def _check_free(cloud: Cloud, wanted: Wanted) -> None:
    why = cloud.why_taken(wanted.server)
    if why is not None:
        raise NotProvisioned(
            f"no server can be called {wanted.server}: {why.rstrip('.')}; choose another name with --server"
        )


def _check_server(wanted: Wanted, server: Json, asked: Administrator | None) -> None:
    administrators = ("properties", "administrators")
    if _in(server, *administrators, "azureADOnlyAuthentication") is not True:
        raise NotProvisioned(
            f"server {wanted.server} is there and takes passwords; turn on Microsoft Entra-only "
            "authentication for it, or choose another name with --server"
        )
    if asked is not None and str(_in(server, *administrators, "sid")).lower() != asked.sid.lower():
        raise NotProvisioned(
            f"server {wanted.server} is there and its administrator is "
            f"{_in(server, *administrators, 'login')}, not "
            f"{asked.login}; this command does not change that. Change it in Azure, "
            "or leave out --admin-login"
        )


def _group_step(cloud: Cloud, wanted: Wanted, found: Json | None) -> Step:
    name, body = wanted.group, group_body(wanted.location)
    if found is not None:
        return _there("resource group", name, found, wanted)
    return Step(
        "resource group", name, State.MISSING, f"in {wanted.location}", partial(cloud.make_group, name, body)
    )


def _server_step(cloud: Cloud, wanted: Wanted, administrator: Administrator, found: Json | None) -> Step:
    if found is not None:
        return _there("server", wanted.server, found, wanted)
    body = server_of(wanted, administrator)
    note = f"Entra ID sign-in only, administrator {administrator.login}"
    act = partial(cloud.make_server, wanted.group, wanted.server, body)
    return Step("server", wanted.server, State.MISSING, note, act)


def _database_step(cloud: Cloud, wanted: Wanted, server: Json | None) -> Step:
    found = None if server is None else cloud.database(wanted.group, wanted.server, wanted.database)
    if found is not None:
        return _there("database", wanted.database, found, wanted)
    body = database_of(wanted)
    offer = "free until the month's limit is used up" if wanted.is_free else "billed by use"
    note = f"serverless, up to 2 cores, pauses after an hour, {offer}"
    act = partial(cloud.make_database, wanted.group, wanted.server, wanted.database, body)
    return Step("database", wanted.database, State.MISSING, note, act)


def _rule_steps(cloud: Cloud, wanted: Wanted, server: Json | None) -> Generator[Step]:
    found = {} if server is None or not wanted.rules else cloud.rules(wanted.group, wanted.server)
    for rule in wanted.rules:
        yield _rule_step(cloud, wanted, rule, found.get(rule.name))


def _rule_step(cloud: Cloud, wanted: Wanted, rule: Rule, found: Json | None) -> Step:
    body = rule_body(rule.start, rule.end)
    note = rule.start if rule.start == rule.end else f"{rule.start} to {rule.end}"
    if rule == ALLOW_AZURE:
        note = "all of Azure, what is not yours included"
    if found is not None and all(
        _in(found, "properties", name) == value for name, value in body["properties"].items()
    ):
        return Step("firewall rule", rule.name, State.THERE, note)
    state = State.MISSING if found is None else State.DIFFERENT
    act = partial(cloud.make_rule, wanted.group, wanted.server, rule.name, body)
    return Step("firewall rule", rule.name, state, note, act)


def _there(what: str, name: str, found: Json, wanted: Wanted) -> Step:
    """What exists stays as it is; where that is not where it was wanted, the plan says so."""
    place = str(found.get("location") or "").replace(" ", "").lower()
    return Step(what, name, State.THERE, f"in {place}" if place not in {"", wanted.location} else "")


def _in(document: object, *names: str) -> object:
    if not names:
        return document
    return _in(cast(Json, document).get(names[0]), *names[1:]) if isinstance(document, dict) else None

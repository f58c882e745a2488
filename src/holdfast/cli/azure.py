"""`holdfast azure`: a database in Azure that is entered without passwords, and its end."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import click

from holdfast.azure.account import signed_in, tenant_of
from holdfast.azure.cloud import Cloud, Credential, credential
from holdfast.azure.database import Database, Prepared, run_sql
from holdfast.azure.plan import Plan, State, Step, survey
from holdfast.azure.provisioning import carry_out
from holdfast.azure.template import TAGS, Json, filled
from holdfast.azure.wanted import (
    ALLOW_AZURE,
    DATABASE,
    GROUP,
    LOCATION,
    PRINCIPALS,
    Administrator,
    Wanted,
    allowed,
    check_group,
    check_uuid,
    default_server,
    region,
)
from holdfast.cli.access import as_json
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.output import progress, say, show_facts, show_json, show_table, warn
from holdfast.cli.run import run

_subscription = click.option(
    "--subscription-id", "subscription", required=True, metavar="ID", help="The subscription that pays."
)
_group = click.option("--group", default=GROUP, show_default=True, metavar="NAME", help="The resource group.")


@click.group()
def azure() -> None:
    """Make a database in Azure that is entered without passwords, or delete it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `provision`."""

    subscription: str
    group: str
    location: str
    server: str | None
    database: str
    admin_login: str | None
    admin_object_id: str | None
    admin_type: str
    tenant_id: str | None
    identities: tuple[str, ...]
    allow_ip: tuple[str, ...]
    allow_azure_services: bool
    free: bool
    dry_run: bool
    yes: bool
    as_json: bool

    def wanted(self) -> Wanted:
        rules = {rule.name: rule for rule in map(allowed, self.allow_ip)}
        named_after_group = default_server(self.subscription, self.group)
        return Wanted(
            subscription=self.subscription,
            group=self.group,
            location=region(self.location),
            server=named_after_group if self.server is None else self.server,
            database=self.database,
            rules=(*rules.values(), *([ALLOW_AZURE] if self.allow_azure_services else [])),
            identities=tuple(dict.fromkeys(self.identities)),
            is_free=self.free,
        )

    def administrator(self) -> Administrator | None:
        """Who was named; his tenant may be left to be found out."""
        if self.admin_login is None and self.admin_object_id is None:
            return None
        if self.admin_login is None or self.admin_object_id is None:
            raise WrongUse("--admin-login and --admin-object-id go together.")
        return Administrator(self.admin_login, self.admin_object_id, self.tenant_id or "", self.admin_type)


@azure.command()
@_subscription
@_group
@click.option("--location", default=LOCATION, show_default=True, metavar="REGION", help="The region.")
@click.option("--server", metavar="NAME", help="The server; by default named after group and subscription.")
@click.option("--database", default=DATABASE, show_default=True, metavar="NAME", help="The database.")
@click.option(
    "--admin-login", metavar="NAME", help="The administrator in Entra ID; by default who runs this."
)
@click.option("--admin-object-id", metavar="ID", help="His object id; for an application, its client id.")
@click.option(
    "--admin-type", type=click.Choice(PRINCIPALS), default="User", show_default=True, help="What he is."
)
@click.option("--tenant-id", metavar="ID", help="His tenant; by default that of who runs this.")
@click.option(
    "--identity",
    "identities",
    multiple=True,
    metavar="NAME",
    help="A managed identity of workers; repeatable.",
)
@click.option(
    "--allow-ip", multiple=True, metavar="ADDRESS", help="Let this address or network connect; repeatable."
)
@click.option("--allow-azure-services", is_flag=True, help="Let all of Azure connect.")
@click.option("--free/--no-free", default=True, show_default=True, help="Use the free offer.")
@click.option("--dry-run", is_flag=True, help="Print the ARM template with its parameters, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def provision(**given: Any) -> None:
    """Make what is missing: resource group, server, database, firewall rules, tables, users.

    The server takes Entra ID sign-in only. Safe to run again: what is there stays, what is missing is made.
    """
    asked = Asked(**given)
    wanted, named = asked.wanted(), asked.administrator()
    if asked.dry_run:
        _show_template(wanted, named)
        return
    if asked.as_json and not asked.yes:
        raise WrongUse("--json asks no questions; add --yes.")
    login = _credential()
    database = _database(wanted)
    with _cloud(login, wanted.subscription) as cloud:
        administrator = _known(named, cloud.token())
        with progress("looking at what is there", None):
            plan = survey(cloud, wanted, administrator, is_asked=named is not None)
        if not asked.as_json:
            _show_plan(plan, wanted)
        if not asked.yes and not click.confirm("Go on?", err=True):
            raise Failure("nothing was changed")
        done = carry_out(plan, _watched_silently if asked.as_json else _watched)
    with progress("making tables and users", None):
        prepared = run(database.prepare())
    if asked.as_json:
        show_json(_document(wanted, plan, done, prepared))
    else:
        _show_end(wanted, prepared)


@azure.command()
@_subscription
@_group
@click.option("--yes", "typed", metavar="GROUP", help="Do not ask: the group's name, typed here instead.")
@as_json
def destroy(subscription: str, group: str, typed: str | None, as_json: bool) -> None:
    """Delete a resource group with all that is in it. There is no way back."""
    check_uuid("subscription-id", subscription)
    check_group(group)
    if as_json and typed is None:
        raise WrongUse("--json asks no questions; add --yes with the group's name.")
    with _cloud(_credential(), subscription) as cloud:
        found = cloud.group(group)
        if found is None:
            _show_gone(group, [], as_json)
            return
        contents = cloud.contents(group)
        if not as_json:
            _show_contents(group, found, contents)
        if typed is None:
            typed = click.prompt(f"Type {group} to delete all this", default="", show_default=False, err=True)
        if typed != group:
            raise Failure(f"{typed!r} is not {group!r}: nothing was deleted")
        with progress(f"deleting {group}", None):
            cloud.delete_group(group)
    _show_gone(group, contents, as_json)


def _credential() -> Credential:
    # What the SDK logs when nobody is signed in, our error says in one line.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    return credential()


def _cloud(login: Credential, subscription: str) -> Cloud:
    return Cloud(login, subscription)


def _database(wanted: Wanted) -> Database:
    """Opened before anything is made: what keeps it from working should be known by then."""
    return Database(wanted, run_sql(wanted))


def _known(named: Administrator | None, token: str) -> Administrator:
    """Who was named, with his tenant; else whoever runs this."""
    if named is None:
        return signed_in(token)
    return named if named.tenant else replace(named, tenant=tenant_of(token))


def _show_template(wanted: Wanted, administrator: Administrator | None) -> None:
    show_json(filled(wanted, administrator))
    if administrator is None:
        warn("the administrator is left open; name him with --admin-login, --admin-object-id and --tenant-id")


def _show_plan(plan: Plan, wanted: Wanted) -> None:
    rows: list[tuple[object, ...]] = [(step.what, step.name, step.state, step.note) for step in plan.steps]
    rows.append(("tables", wanted.database, "brought up to date", f"signed in as {plan.administrator}"))
    rows += [("user", name, "made if missing", "may use the tables") for name in wanted.identities]
    show_table(("what", "name", "", "note"), rows, nothing="")
    if not wanted.rules:
        warn(
            "no address is allowed to connect by this; the tables can be made only if a rule is there already"
        )


@contextmanager
def _watched(step: Step) -> Generator[None]:
    with _watched_silently(step):
        yield
    say(f"{'made' if step.state is State.MISSING else 'changed'} {step.what} {step.name}")


@contextmanager
def _watched_silently(step: Step) -> Generator[None]:
    with progress(f"{step.what} {step.name}", None):
        yield


def _show_end(wanted: Wanted, prepared: Prepared) -> None:
    for step in prepared.applied:
        say(f"applied {step}")
    for user in prepared.users:
        say(f"user {user} is there")
    say("All is there.", "green")
    show_facts({"store": wanted.url})


def _document(wanted: Wanted, plan: Plan, done: list[Step], prepared: Prepared) -> Json:
    made = {id(step) for step in done}
    resources = [
        {"what": step.what, "name": step.name, "done": _done(step) if id(step) in made else "nothing"}
        for step in plan.steps
    ]
    return {
        "store": wanted.url,
        "administrator": plan.administrator,
        "resources": resources,
        "applied": prepared.applied,
        "users": prepared.users,
    }


def _done(step: Step) -> str:
    return "made" if step.state is State.MISSING else "changed"


def _show_contents(group: str, found: Json, contents: list[Json]) -> None:
    rows = ((each.get("name"), each.get("type"), each.get("location")) for each in contents)
    show_table(("name", "type", "location"), rows, nothing=f"Resource group {group} is empty.")
    if not TAGS.items() <= (found.get("tags") or {}).items():
        warn(f"resource group {group} was not made by this command; others may need what is in it")


def _show_gone(group: str, contents: list[Json], as_json: bool) -> None:
    if as_json:
        show_json({"group": group, "deleted": [each.get("id") for each in contents]})
    elif contents:
        say(f"Resource group {group} is gone, with {len(contents)} resources.")
    else:
        say(f"Resource group {group} is gone.")

"""`holdfast keys`: keys of encryption, made, named and counted."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterator

import click
import msgspec

from holdfast.cli.access import as_json, store_options
from holdfast.cli.output import say, show_facts, show_json, show_table
from holdfast.cli.run import run
from holdfast.config import load_keys, load_settings
from holdfast.model.encryption import KEY_BYTES, PLAIN, EncryptionKey
from holdfast.model.plan import Plan
from holdfast.model.records import Query
from holdfast.model.sealed import sealed_with
from holdfast.store import Session
from holdfast.stores import open_store

PAGE = 500
KINDS = ("jobs", "results", "events", "schedules")


@click.group()
def keys() -> None:
    """Make keys that encrypt what jobs carry, and see which are in use."""


@keys.command()
@as_json
def new(as_json: bool) -> None:
    """Make a key, and print it. It is stored nowhere."""
    key = EncryptionKey(secrets.token_bytes(KEY_BYTES))
    if as_json:
        show_json({"id": key.id, "key": key.to_text()})
        return
    click.echo(key.to_text())
    if sys.stdout.isatty():
        click.echo(f"Its id is {key.id}. Put it into encryption_keys; whoever has it can read all.", err=True)


@keys.command()
@click.option(
    "--limit", type=click.IntRange(1), default=10_000, show_default=True, help="Jobs and events to look at."
)
@as_json
@store_options
def used(store: str | None, namespace: str | None, as_json: bool, limit: int) -> None:
    """Count what is stored by the key that encrypted it: the newest jobs, the oldest events, all schedules.

    A key without a number may be taken out of encryption_keys, if all there is was looked at.
    """
    settings = load_settings({"store": store, "namespace": namespace})
    configured = load_keys(settings)

    async def work() -> tuple[dict[str, Counter[str]], bool]:
        opened = open_store(settings.store, auto_migrate=False)
        try:
            session = await opened.connect(settings.namespace)
            try:
                return await _counted(session, limit)
            finally:
                await session.close()
        finally:
            await opened.close()

    counts, is_all = run(work())
    known = () if configured is None else (*configured.ids, PLAIN)
    names = [*dict.fromkeys([*known, *sorted({name for count in counts.values() for name in count})])]
    found = [{"key": name, **{kind: counts[kind][name] for kind in KINDS}} for name in names]
    if as_json:
        show_json({"encryption": configured and configured.summary, "keys": found, "all": is_all})
        return
    show_facts({"encryption": "off" if configured is None else configured.summary})
    say("")
    rows = ([entry["key"], *(entry[kind] for kind in KINDS)] for entry in found)
    show_table(("key", *KINDS), rows, nothing="Nothing is stored.")
    if not is_all:
        say(f"There is more than the {limit} jobs or events that were looked at; see --limit.", "yellow")


async def _counted(session: Session, limit: int) -> tuple[dict[str, Counter[str]], bool]:
    counts = {kind: Counter[str]() for kind in KINDS}
    looked = 0
    async for arguments, result in _jobs(session, limit):
        looked += 1
        counts["jobs"][_key(arguments)] += 1
        if result is not None:
            counts["results"][_key(result)] += 1
    is_all = looked < limit
    looked, after = 0, 0
    while looked < limit:
        page = await session.events.read(after, min(PAGE, limit - looked))
        counts["events"].update(_key(event.data) for event in page.records)
        looked += len(page.records)
        if page.upto <= after:
            break
        after = page.upto
    is_all = is_all and looked < limit
    name = ""
    while records := (await session.schedules.list(name, PAGE)).records:
        counts["schedules"].update(key for record in records for key in _template_key(record.definition))
        name = records[-1].name
    return counts, is_all


async def _jobs(session: Session, limit: int) -> AsyncGenerator[tuple[bytes, bytes | None]]:
    cursor = None
    while limit > 0:
        page = await session.jobs.find(Query(cursor=cursor, limit=min(PAGE, limit)))
        for record in page:
            yield record.payload, record.result
        if len(page) < PAGE:
            return
        cursor, limit = page[-1].id, limit - len(page)


def _template_key(definition: bytes) -> Iterator[str]:
    try:
        yield _key(msgspec.json.decode(definition, type=Plan).carried)
    except msgspec.MsgspecError:
        return


def _key(stored: bytes) -> str:
    return sealed_with(stored) or PLAIN

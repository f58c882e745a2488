"""`holdfast events`: what happened, and how far the groups that consume it have come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click
import msgspec
from msgspec.structs import asdict, replace

from holdfast.app import Holdfast
from holdfast.cli.access import as_json, opened, reveal, store_options
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.output import brief, progress, say, show_json, show_table
from holdfast.cli.run import run
from holdfast.engine.events import MOST_LISTED, GroupInfo, WaitingInfo
from holdfast.model.errors import GroupGone
from holdfast.model.events import Event
from holdfast.model.names import check_id
from holdfast.model.partition import is_in_memory

EVENT_COLUMNS = ("position", "at", "topic", "type", "aggregate", "version", "id", "data")
GROUP_COLUMNS = ("group", "topic", "offset", "behind", "waiting", "parked")
WAITING_COLUMNS = ("topic", "event", "aggregate", "failures", "retry at", "since", "reason")
DATA_SHOWN = 60
_HIGHEST = 2**63 - 1

Command = TypeVar("Command", bound=Callable[..., object])


def _of_what_failed(command: Command) -> Command:
    """Which events of a group: all that failed, or those that are named."""
    for option in (
        click.option("--aggregate", help="Only what failed of this aggregate."),
        click.option("--event", metavar="ID", help="Only this event."),
        click.option("--topic", help="Only what failed of this topic."),
        click.argument("group"),
    ):
        command = option(command)
    return command


@click.group()
def events() -> None:
    """See events, and steer the groups that consume them."""


@events.command("list")
@click.option("--topic", help="Only events of this topic.")
@click.option("--aggregate", help="Only events of this aggregate of the topic.")
@click.option(
    "--after", type=click.IntRange(0, _HIGHEST), default=0, metavar="POSITION", help="Go on behind this one."
)
@click.option("--limit", type=click.IntRange(1, MOST_LISTED), default=50, show_default=True)
@click.option("--last", type=click.IntRange(1, MOST_LISTED), metavar="N", help="Only the newest N.")
@reveal
@as_json
@store_options
def list_events(
    store: str | None,
    namespace: str | None,
    as_json: bool,
    reveal: bool,
    topic: str | None,
    aggregate: str | None,
    after: int,
    limit: int,
    last: int | None,
) -> None:
    """List events in their order, oldest first. The table has the beginning of their data, JSON all."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            if last is None:
                found = await app.events.list(topic, aggregate=aggregate, after=after, limit=limit)
            else:
                found = await app.events.newest(topic, aggregate=aggregate, limit=last)
            if not reveal:
                redact = app.redactor.redact
                found = [replace(event, data=redact(event.data)) for event in found]
        more = found[-1].position if last is None and len(found) == limit else None
        if as_json:
            show_json({"events": found, "after": more})
            return
        show_table(EVENT_COLUMNS, map(_event_row, found), nothing="No such events.")
        if more is not None:
            say(f"More: --after {more}", "dim")

    run(work())


@events.command()
@as_json
@store_options
def groups(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List the groups that consume, by name and topic, and how far they have come.

    `offset` is the last position that a group has passed, `behind` how many events it has before it: at most,
    for those of other topics in between are counted too. Of the events that failed, `waiting` are tried again
    by themselves, `parked` only when they are replayed.
    """

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = [_group_document(each) for each in await app.events.groups()]
        if as_json:
            show_json({"groups": found})
            return
        columns = (
            (*GROUP_COLUMNS, "partition") if any("partition" in each for each in found) else GROUP_COLUMNS
        )
        rows = ([each.get(column) for column in columns] for each in found)
        show_table(columns, rows, nothing="No group has consumed yet.")

    run(work())


@events.command()
@click.argument("group")
@click.option("--topic", help="Only what failed of this topic.")
@as_json
@store_options
def waiting(store: str | None, namespace: str | None, as_json: bool, group: str, topic: str | None) -> None:
    """List the events that failed in a group, each of which holds up what follows of its aggregate."""

    async def work() -> None:
        async with _steered(store, namespace, group, topic) as app:
            found = await _failed(app, group, topic)
        if as_json:
            show_json({"waiting": [{"topic": of, **asdict(each)} for of, each in found]})
            return
        rows = (_waiting_row(of, each) for of, each in found)
        show_table(WAITING_COLUMNS, rows, nothing=f"Nothing waits in group {group}.")

    run(work())


@events.command()
@_of_what_failed
@as_json
@store_options
def replay(
    store: str | None,
    namespace: str | None,
    as_json: bool,
    group: str,
    topic: str | None,
    event: str | None,
    aggregate: str | None,
) -> None:
    """Have events that failed in a group tried again at once, with all their attempts before them."""
    event = None if event is None else check_id(event, "event")

    async def work() -> None:
        async with _steered(store, namespace, group, topic) as app:
            done = await app.events.replay(group, topic, event=event, aggregate=aggregate)
        _tell("replayed", done, as_json, group, event)

    run(work())


@events.command()
@_of_what_failed
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@store_options
def skip(
    store: str | None,
    namespace: str | None,
    as_json: bool,
    group: str,
    topic: str | None,
    event: str | None,
    aggregate: str | None,
    yes: bool,
) -> None:
    """Leave out events that failed in a group, so that what follows of their aggregates goes on."""
    event = None if event is None else check_id(event, "event")

    async def work() -> None:
        async with _steered(store, namespace, group, topic) as app:
            chosen = [
                (of, each.event)
                for of, each in await _failed(app, group, topic)
                if event in (None, each.event) and aggregate in (None, each.aggregate)
            ]
            if chosen and not yes:
                click.confirm(f"Leave out {len(chosen)} events for good?", abort=True, err=True)
            done = 0
            # One by one: whatever fails in the meantime was not asked about.
            with progress("skipping", len(chosen)) as advance:
                for of, each in chosen:
                    done += await app.events.skip(group, of, event=each)
                    advance()
        _tell("skipped", done, as_json, group, event)

    run(work())


@events.command()
@click.argument("group")
@click.argument("topic")
@store_options
def forget(store: str | None, namespace: str | None, group: str, topic: str) -> None:
    """Remove a group that consumes no more, so that events of the topic are no longer kept for it.

    Should it consume again, it begins like a new one.
    """

    async def work() -> None:
        async with _steered(store, namespace, group, topic) as app:
            if not await app.events.forget(group, topic):
                raise GroupGone(group)
        say(f"Group {group} of topic {topic} is forgotten.")

    run(work())


@events.command()
@click.argument("topic")
@click.argument("type")
@click.argument("data", metavar="JSON")
@click.option("--aggregate", help="What it happened to: events of one aggregate are told in order.")
@click.option("--id", metavar="UUID", help="The same id is stored once, however often it is emitted.")
@as_json
@store_options
def emit(store: str | None, namespace: str | None, as_json: bool, data: str, **given: Any) -> None:
    """Store an event, and print its id. JSON gives its data."""
    try:
        event = Event(data=msgspec.json.decode(data), **given)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise WrongUse(f"the data are not JSON: {error}.") from None

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            if is_in_memory(app.settings.store):
                raise WrongUse(
                    "an event in memory:// would be gone when this command ends; name another with --store."
                )
            [event_id] = await app.emit(event)
        if as_json:
            show_json({"event": event_id})
        else:
            say(event_id)

    run(work())


@asynccontextmanager
async def _steered(
    store: str | None, namespace: str | None, group: str, topic: str | None
) -> AsyncGenerator[Holdfast]:
    try:
        async with opened(store, namespace) as app:
            yield app
    except GroupGone:
        known = f"{group} of topic {topic}" if topic is not None else group
        raise Failure(f"there is no group {known}; 'holdfast events groups' shows all") from None


async def _failed(app: Holdfast, group: str, topic: str | None) -> list[tuple[str, WaitingInfo]]:
    """What failed in a group, each with its topic. GroupGone if there is no such group."""
    known = [
        each for each in await app.events.groups() if each.group == group and topic in (None, each.topic)
    ]
    if not known:
        raise GroupGone(group)
    return [(info.topic, each) for info in known for each in info.waiting]


def _tell(what: str, count: int, as_json: bool, group: str, event: str | None) -> None:
    if event is not None and not count:
        raise Failure(
            f"event {event} does not wait in group {group}; 'holdfast events waiting {group}' shows what does"
        )
    if as_json:
        show_json({what: count})
    else:
        say(f"{count} events {what}.")


def _event_row(event: Event[Any]) -> tuple[object, ...]:
    return (
        event.position,
        event.at,
        event.topic,
        event.type,
        event.aggregate,
        event.version,
        event.id,
        brief(event.data, DATA_SHOWN),
    )


def _group_document(info: GroupInfo) -> dict[str, object]:
    parked = sum(each.retry_at is None for each in info.waiting)
    return {
        "group": info.group,
        "topic": info.topic,
        "offset": info.offset,
        "behind": info.behind,
        "waiting": len(info.waiting) - parked,
        "parked": parked,
        **({} if info.partition is None else {"partition": info.partition}),
    }


def _waiting_row(topic: str, each: WaitingInfo) -> tuple[object, ...]:
    then = "parked" if each.retry_at is None else "skipped" if each.skip else each.retry_at
    return (topic, each.event, each.aggregate, each.failures, then, each.since, each.reason)

"""`holdfast schedules`: recurring work, seen and steered."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, get_args
from zoneinfo import ZoneInfo

import click
from msgspec.structs import asdict

from holdfast.app import Holdfast
from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.enqueue import find_task, parse_arguments
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.load import load_app
from holdfast.cli.output import say, show_json, show_table, when
from holdfast.cli.recurrence import describe, document, duration, make_recurrence, point_in_time
from holdfast.cli.run import run
from holdfast.model.cron import Cron
from holdfast.model.errors import ScheduleGone, VersionConflict
from holdfast.model.partition import is_in_memory
from holdfast.model.plan import ScheduleInfo
from holdfast.model.recurrence import Anchor, Recurrence
from holdfast.model.schedule import CATCH_UP, GRACE, Misfire, Overlap
from holdfast.model.timing import SECOND
from holdfast.telemetry import logs

COLUMNS = ("name", "is", "task", "queue", "when", "next", "last", "missed", "skipped", "version")


@click.group()
def schedules() -> None:
    """See and steer recurring work."""


@schedules.command("list")
@as_json
@store_options
def list_schedules(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List schedules by name, with their last and next due times.

    `missed` counts due times that passed while nobody was there to fire, `skipped` those that were left out
    because a run was under way.
    """

    async def work() -> None:
        async with opened(store, namespace) as app:
            logs.configure(app.settings)  # one that cannot be read is named there
            found = await app.schedules.list()
        if as_json:
            show_json({"schedules": [_document(each) for each in found]})
            return
        is_spread = any(each.partition for each in found)
        rows = ((*_row(each), each.partition) if is_spread else _row(each) for each in found)
        show_table((*COLUMNS, "partition") if is_spread else COLUMNS, rows, nothing="No schedules.")

    run(work())


@schedules.command()
@click.argument("app", metavar="MODULE:APP")
@click.argument("name")
@click.argument("task")
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option("--every", "interval", type=duration, metavar="TIME", help="Such as 90, 10m or 1h30m.")
@click.option("--cron", "expression", metavar="EXPRESSION", help='Such as "0 3 * * *".')
@click.option(
    "--at", "instant", type=point_in_time, metavar="ISO", help="Once, such as 2026-03-01T09:00:00Z."
)
@click.option("--tz", metavar="ZONE", help="The time zone of --cron, such as Europe/Berlin.  [UTC]")
@click.option("--anchor", type=click.Choice(get_args(Anchor)), help="What --every counts from.  [rate]")
@click.option("--start", type=point_in_time, metavar="ISO", help="Where --every begins to count.  [now]")
@click.option(
    "--misfire",
    type=click.Choice(get_args(Misfire)),
    default="once",
    help="What follows missed times.  [once]",
)
@click.option(
    "--overlap", type=click.Choice(get_args(Overlap)), default="skip", help="While a run is live.  [skip]"
)
@click.option("--jitter", type=duration, default="0", metavar="TIME", help="Delay each job by up to that.")
@click.option(
    "--catch-up", type=int, default=CATCH_UP, metavar="N", help=f"Most with --misfire all.  [{CATCH_UP}]"
)
@click.option(
    "--grace",
    type=duration,
    default=str(GRACE // SECOND),
    metavar="TIME",
    help="How late --misfire skip fires.  [1m]",
)
@click.option("--queue", help="Another queue than the task's.")
@click.option("--priority", type=int, help="Lower numbers go first.")
@click.option("--tag", "tags", multiple=True, help="A tag for its jobs; may be repeated.")
@click.option("--replace", is_flag=True, help="Change the schedule if there is one of that name.")
@click.option("--version", type=int, metavar="N", help="Change it only if this is its version.")
@click.option("--store", metavar="URL", help="Another store than the application's own.")
@click.option("--namespace", metavar="NAME", help="Another namespace than the application's own.")
@as_json
def add(
    app: str,
    name: str,
    task: str,
    arguments: str,
    interval: float | None,
    expression: str | None,
    instant: datetime | None,
    tz: str | None,
    anchor: Anchor | None,
    start: datetime | None,
    queue: str | None,
    priority: int | None,
    tags: tuple[str, ...],
    replace: bool,
    version: int | None,
    store: str | None,
    namespace: str | None,
    as_json: bool,
    **rules: Any,
) -> None:
    """Store a schedule that fires jobs of a task, by one of --every, --cron and --at.

    JSON gives the task's arguments: an object by name, an array by position.
    """
    recurrence = make_recurrence(
        interval=interval, expression=expression, instant=instant, tz=tz, anchor=anchor, start=start
    )
    args, kwargs = parse_arguments(arguments)
    application = load_app(app).configured(store=store, namespace=namespace)
    call = find_task(application, task).using(queue=queue, priority=priority, tags=tags or None)
    if is_in_memory(application.settings.store):
        raise WrongUse(
            "a schedule in memory:// would be gone when this command ends; name another with --store."
        )

    async def work() -> None:
        expected = version if replace or version is not None else 0
        async with application:
            try:
                info = await application.schedules.put(
                    name, recurrence, call.call(*args, **kwargs), version=expected, **rules
                )
            except VersionConflict as error:
                if expected != 0:
                    raise
                raise Failure(f"there is a schedule {name} already; --replace changes it") from error
        if as_json:
            show_json({"schedule": _document(info)})
        else:
            say(f"Schedule {name}: {describe(recurrence)}; {_coming(info)}.")

    run(work())


@schedules.command()
@click.argument("name")
@as_json
@store_options
def remove(store: str | None, namespace: str | None, name: str, as_json: bool) -> None:
    """Remove a schedule. Jobs that it has fired stay."""

    async def work() -> None:
        async with _steered(store, namespace, name) as app:
            if not await app.schedules.remove(name):
                raise ScheduleGone(name)
        if as_json:
            show_json({"removed": name})
        else:
            say(f"Schedule {name} is removed.")

    run(work())


@schedules.command()
@click.argument("name")
@as_json
@store_options
def pause(store: str | None, namespace: str | None, name: str, as_json: bool) -> None:
    """Let a schedule fire nothing until it is resumed."""

    async def work() -> None:
        async with _steered(store, namespace, name) as app:
            info = await app.schedules.pause(name)
        if as_json:
            show_json({"schedule": _document(info)})
        else:
            say(f"Schedule {name} is paused.")

    run(work())


@schedules.command()
@click.argument("name")
@as_json
@store_options
def resume(store: str | None, namespace: str | None, name: str, as_json: bool) -> None:
    """Let a paused schedule fire again. What passed meanwhile is not made up for."""

    async def work() -> None:
        async with _steered(store, namespace, name) as app:
            info = await app.schedules.resume(name)
        if as_json:
            show_json({"schedule": _document(info)})
        else:
            say(f"Schedule {name} is active; {_coming(info)}.")

    run(work())


@schedules.command("run")
@click.argument("name")
@as_json
@store_options
def run_now(store: str | None, namespace: str | None, name: str, as_json: bool) -> None:
    """Fire a schedule once more, now, and print the id of the job."""

    async def work() -> None:
        async with _steered(store, namespace, name) as app:
            job_id = await app.schedules.run(name)
        if as_json:
            show_json({"job": job_id})
        else:
            say(job_id)

    run(work())


@schedules.command("next")
@click.argument("name")
@click.option("--count", type=click.IntRange(1, 10_000), default=10, metavar="N", help="How many.  [10]")
@as_json
@store_options
def next_firings(store: str | None, namespace: str | None, name: str, count: int, as_json: bool) -> None:
    """Show when a schedule is due next, in local and in universal time.

    Local is the time zone of a cron expression, else that of this machine.
    """

    async def work() -> None:
        async with _steered(store, namespace, name) as app:
            info = await app.schedules.get(name)
            if info is None:
                raise ScheduleGone(name)
            coming = await app.schedules.next(name, count)
        rows = [(_local(info.recurrence, due), due) for due in coming]
        if as_json:
            firings = [{"local": local, "utc": due} for local, due in rows]
            show_json({"schedule": name, "paused": info.paused, "next": firings})
            return
        shown = ((local.isoformat(" ", "seconds"), when(due)) for local, due in rows)
        show_table(("local", "UTC"), shown, nothing=f"Schedule {name}: {_coming(info)}.")
        if info.paused:
            say("It is paused: these are its due times if it were resumed now.", "dim")

    run(work())


@asynccontextmanager
async def _steered(store: str | None, namespace: str | None, name: str) -> AsyncGenerator[Holdfast]:
    try:
        async with opened(store, namespace) as app:
            yield app
    except ScheduleGone:
        raise Failure(f"there is no schedule {name}; 'holdfast schedules list' shows all") from None


def _local(recurrence: Recurrence, due: datetime) -> datetime:
    place = ZoneInfo(recurrence.tz) if isinstance(recurrence, Cron) and recurrence.tz != "UTC" else None
    try:
        return due.astimezone(UTC if isinstance(recurrence, Cron) and place is None else place)
    except (OverflowError, ValueError):  # at the end of the calendar there may be no such local time
        return due


def _coming(info: ScheduleInfo) -> str:
    """When it fires next, in words."""
    if info.paused:
        return "it is paused"
    if info.next_due is not None:
        return f"next at {when(info.next_due)}"
    return "the next time follows its run" if info.running else "it has nothing more to fire"


def _state(info: ScheduleInfo) -> str:
    if info.paused:
        return "paused"
    if info.running:
        return "running"
    return "ended" if info.next_due is None else "active"


def _row(info: ScheduleInfo) -> tuple[object, ...]:
    return (
        info.name,
        _state(info),
        info.task or f"event in {info.topic}",
        info.queue,
        describe(info.recurrence),
        info.next_due,
        info.last_due,
        info.missed,
        info.skipped,
        info.version,
    )


def _document(info: ScheduleInfo) -> dict[str, object]:
    shown: dict[str, object] = {**asdict(info), "recurrence": document(info.recurrence)}
    if info.partition is None:
        del shown["partition"]
    return shown

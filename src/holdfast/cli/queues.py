"""`holdfast queues`, `holdfast workers` and `holdfast stats`."""

from __future__ import annotations

from dataclasses import asdict

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.output import say, show_facts, show_json, show_table, when
from holdfast.cli.run import run
from holdfast.model.flow import Scope
from holdfast.model.overview import Counts, QueueInfo
from holdfast.model.report import WorkerReport

GROUPS = ("queued", "parked", "scheduled", "in progress", "completed", "failed", "cancelled")


def _groups(counts: Counts) -> tuple[int, ...]:
    """The counts of a queue in the order of GROUPS."""
    live = (counts.queued, counts.parked, counts.scheduled, counts.in_progress)
    return (*live, counts.completed, counts.failed, counts.cancelled)


exactly = click.option("--exact", is_flag=True, help="Count all jobs one by one, though that may take long.")


def _is(queue: QueueInfo) -> str:
    if not queue.paused:
        return "open"
    return "paused" if queue.paused_since is None else f"paused since {when(queue.paused_since)}"


def _say_estimated(exact: bool) -> None:
    if not exact:
        say("Where there are many, the numbers are estimates; --exact counts them.", "dim")


@click.group()
def queues() -> None:
    """See queues, pause and resume them."""


@queues.command("list")
@exactly
@as_json
@store_options
def list_queues(store: str | None, namespace: str | None, as_json: bool, exact: bool) -> None:
    """List queues with their counts. Of those queued, some may be parked: something holds them back.

    Oldest is for how long the first of those that are not parked have waited.
    """

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.queues.list(exact=exact)
            limits = await app.client.session.flow.limits()
        weights = {limit.name: limit.weight for limit in limits if limit.scope is Scope.QUEUE}
        if as_json:
            documents = [{**asdict(queue), "weight": weights.get(queue.name, 1.0)} for queue in found]
            show_json({"queues": documents})
            return
        rows = (
            (
                queue.name,
                _is(queue),
                f"{weights.get(queue.name, 1.0):g}",
                *_groups(queue.counts),
                None if queue.oldest is None else f"{queue.oldest:,.1f} s",
            )
            for queue in found
        )
        show_table(("queue", "is", "weight", *GROUPS, "oldest"), rows, nothing="No queues yet.")
        _say_estimated(all(queue.counts.exact for queue in found))

    run(work())


@queues.command()
@click.argument("name")
@store_options
def pause(store: str | None, namespace: str | None, name: str) -> None:
    """Let no job of a queue be claimed until it is resumed. What runs goes on."""

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            await app.queues.pause(name)
        say(f"Queue {name} is paused.")

    run(work())


@queues.command()
@click.argument("name")
@store_options
def resume(store: str | None, namespace: str | None, name: str) -> None:
    """Let jobs of a paused queue be claimed again."""

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            await app.queues.resume(name)
        say(f"Queue {name} is open.")

    run(work())


def _told(report: WorkerReport | None) -> tuple[str | None, int | None, int | None]:
    """Busy slots, jobs that succeeded and that failed, as the worker told."""
    if report is None:
        return None, None, None
    stuck = f", {report.stuck} stuck" if report.stuck else ""
    idle = "" if report.claiming else ", claims nothing"
    return f"{report.busy}{stuck}{idle}", report.total.success, report.total.failed


@click.command()
@as_json
@store_options
def workers(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List the workers that the store knows, and how they stood a few seconds ago."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.workers()
        if as_json:
            show_json({"workers": found})
            return
        columns = ("id", "is", "host", "pid", "queues", "slots", "busy", "done", "failed", "seen")
        rows = (
            (
                each.id,
                "live" if each.live else "gone",
                each.host,
                each.pid,
                ", ".join(each.queues),
                each.concurrency,
                *_told(each.report),
                each.seen,
            )
            for each in found
        )
        show_table(columns, rows, nothing="No workers.")

    run(work())


@click.command()
@exactly
@as_json
@store_options
def stats(store: str | None, namespace: str | None, as_json: bool, exact: bool) -> None:
    """Count jobs by state and by queue."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.stats(exact=exact)
        if as_json:
            show_json(found)
            return
        rows = [("all", *_groups(found))]
        rows += [(queue, *_groups(counts)) for queue, counts in found.by_queue.items()]
        show_table(("queue", *GROUPS), rows, nothing="")
        say("")
        show_facts({state.value: count for state, count in found.by_state.items()})
        _say_estimated(found.exact)

    run(work())

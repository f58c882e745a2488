"""`holdfast queues`, `holdfast workers` and `holdfast stats`."""

from __future__ import annotations

from dataclasses import asdict

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.output import say, show_facts, show_json, show_table
from holdfast.cli.run import run
from holdfast.model.flow import Scope
from holdfast.model.overview import Counts

GROUPS = ("queued", "parked", "scheduled", "in progress", "completed", "failed", "cancelled")


def _groups(counts: Counts) -> tuple[int, ...]:
    """The counts of a queue in the order of GROUPS."""
    live = (counts.queued, counts.parked, counts.scheduled, counts.in_progress)
    return (*live, counts.completed, counts.failed, counts.cancelled)


@click.group()
def queues() -> None:
    """See queues, pause and resume them."""


@queues.command("list")
@as_json
@store_options
def list_queues(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List queues with their counts. Of those queued, some may be parked: something holds them back."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.queues.list()
            limits = await app.client.session.flow.limits()
        weights = {limit.name: limit.weight for limit in limits if limit.scope is Scope.QUEUE}
        if as_json:
            documents = [{**asdict(queue), "weight": weights.get(queue.name, 1.0)} for queue in found]
            show_json({"queues": documents})
            return
        rows = (
            (
                queue.name,
                "paused" if queue.paused else "open",
                f"{weights.get(queue.name, 1.0):g}",
                *_groups(queue.counts),
            )
            for queue in found
        )
        show_table(("queue", "is", "weight", *GROUPS), rows, nothing="No queues yet.")

    run(work())


@queues.command()
@click.argument("name")
@as_json
@store_options
def pause(store: str | None, namespace: str | None, name: str, as_json: bool) -> None:
    """Let no job of a queue be claimed until it is resumed. What runs goes on."""

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            await app.queues.pause(name)
        _tell(name, paused=True, as_json=as_json)

    run(work())


@queues.command()
@click.argument("name")
@as_json
@store_options
def resume(store: str | None, namespace: str | None, name: str, as_json: bool) -> None:
    """Let jobs of a paused queue be claimed again."""

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            await app.queues.resume(name)
        _tell(name, paused=False, as_json=as_json)

    run(work())


def _tell(name: str, *, paused: bool, as_json: bool) -> None:
    if as_json:
        show_json({"queue": name, "paused": paused})
    else:
        say(f"Queue {name} is {'paused' if paused else 'open'}.")


@click.command()
@as_json
@store_options
def workers(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List the workers that the store knows."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.workers()
        if as_json:
            show_json({"workers": found})
            return
        columns = ("id", "is", "host", "pid", "queues", "jobs at once", "seen")
        rows = (
            (
                each.id,
                "live" if each.live else "gone",
                each.host,
                each.pid,
                ", ".join(each.queues),
                each.concurrency,
                each.seen,
            )
            for each in found
        )
        show_table(columns, rows, nothing="No workers.")

    run(work())


@click.command()
@as_json
@store_options
def stats(store: str | None, namespace: str | None, as_json: bool) -> None:
    """Count jobs by state and by queue."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.stats()
        if as_json:
            show_json(found)
            return
        rows = [("all", *_groups(found))]
        rows += [(queue, *_groups(counts)) for queue, counts in found.by_queue.items()]
        show_table(("queue", *GROUPS), rows, nothing="")
        say("")
        show_facts({state.value: count for state, count in found.by_state.items()})

    run(work())

"""`holdfast partitions`: the stores that jobs are spread over."""

from __future__ import annotations

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.errors import Failure
from holdfast.cli.output import say, show_json, show_table
from holdfast.cli.run import run
from holdfast.engine.partition import PartitionInfo

COLUMNS = ("partition", "is", "live jobs", "dead", "finished", "workers", "leader")


@click.group()
def partitions() -> None:
    """See the stores that jobs are spread over."""


@partitions.command("list")
@as_json
@store_options
def list_partitions(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List partitions with what they have. The first one that is marked so is home: it has the locks."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.partitions.list()
        if as_json:
            show_json({"partitions": found})
            return
        show_table(COLUMNS, map(_row, found), nothing="The store has no partitions.")
        for each in found:
            if each.error is not None:
                say(f"{each.name}: {each.error}", "red")

    run(work())


@partitions.command()
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE...")
@as_json
@store_options
def of(store: str | None, namespace: str | None, as_json: bool, queues: tuple[str, ...]) -> None:
    """Tell where new jobs of queues are placed."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = {queue: app.partitions.of_queue(queue) for queue in queues}
            if not app.partitions.names:
                raise Failure("the store has no partitions")
        if as_json:
            show_json({"queues": found})
        else:
            show_table(("queue", "partition"), found.items(), nothing="")

    run(work())


def _row(info: PartitionInfo) -> tuple[object, ...]:
    state = "draining" if info.draining else "open"
    shown = f"{state}, home" if info.home else state
    if info.error is not None:
        return (info.name, f"{shown}, no answer", None, None, None, None, None)
    leader = None if info.leader is None else info.leader.worker
    return (info.name, shown, info.live, info.dead, info.finished, info.workers, leader)

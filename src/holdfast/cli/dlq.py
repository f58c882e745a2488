"""`holdfast dlq`: the jobs that used up their attempts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from holdfast.app import Holdfast
from holdfast.cli.access import as_json, opened, resolve, store_options
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.jobs import COLUMNS, job_document, job_row
from holdfast.cli.output import progress, say, show_json, show_table
from holdfast.cli.run import run
from holdfast.model.lifecycle import State

PAGE = 500
AT_ONCE = 100


@click.group()
def dlq() -> None:
    """See, replay and discard the jobs that used up their attempts."""


@dlq.command("list")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--task", help="Only jobs of this task.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", metavar="ID", help="Go on after this job, the last of the page before.")
@as_json
@store_options
def list_dead(
    store: str | None, namespace: str | None, as_json: bool, limit: int, cursor: str | None, **filters: Any
) -> None:
    """List the jobs of the dead-letter queue, newest first."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            page = await app.dlq.list(**filters, limit=limit, cursor=cursor)
        if as_json:
            show_json({"jobs": [*map(job_document, page)], "cursor": page.cursor})
            return
        show_table(COLUMNS, map(job_row, page), nothing="The dead-letter queue is empty.")
        if page.cursor is not None:
            say(f"More: --cursor {page.cursor}", "dim")

    run(work())


@dlq.command()
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="All jobs of the dead-letter queue.")
@click.option("--queue", help="All of this queue.")
@click.option("--task", help="All of this task.")
@as_json
@store_options
def replay(store: str | None, namespace: str | None, as_json: bool, **chosen: Any) -> None:
    """Put jobs back to work, with all their attempts before them."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            done = await _each("replaying", await _chosen(app, **chosen), app.dlq.replay)
        _tell("replayed", done, as_json)

    run(work())


@dlq.command()
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--all", "everything", is_flag=True, help="All jobs of the dead-letter queue.")
@click.option("--queue", help="All of this queue.")
@click.option("--task", help="All of this task.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@store_options
def discard(store: str | None, namespace: str | None, as_json: bool, yes: bool, **chosen: Any) -> None:
    """Delete jobs of the dead-letter queue for good."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            ids = await _chosen(app, **chosen)
            if ids and not yes:
                click.confirm(f"Delete {len(ids)} jobs for good?", abort=True, err=True)
            done = await _each("discarding", ids, app.dlq.discard)
        _tell("discarded", done, as_json)

    run(work())


async def _chosen(
    app: Holdfast, ids: tuple[str, ...], everything: bool, queue: str | None, task: str | None
) -> list[str]:
    """The ids that were named, or those of all dead jobs that match."""
    if bool(ids) == bool(everything or queue or task):
        raise WrongUse("give either IDs, or --all, --queue or --task.")
    if ids:
        jobs = [await resolve(app, text) for text in ids]
        living = next((job for job in jobs if job.state is not State.DLQ), None)
        if living is not None:
            raise Failure(f"job {living.id} is {living.state}, not in the dead-letter queue")
        return [job.id for job in jobs]
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await app.dlq.list(queue=queue, task=task, cursor=cursor, limit=PAGE)
        found += [job.id for job in page]
        cursor = page.cursor
        if cursor is None:
            return found


async def _each(what: str, ids: list[str], act: Callable[[list[str]], Awaitable[int]]) -> int:
    """Acts on all, some at a time; how many there were still to act on."""
    done = 0
    with progress(what, len(ids)) as advance:
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            done += await act(some)
            advance(len(some))
    return done


def _tell(what: str, count: int, as_json: bool) -> None:
    if as_json:
        show_json({what: count})
    else:
        say(f"{count} jobs {what}.")

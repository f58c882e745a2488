"""`holdfast jobs` and `holdfast why`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.access import as_json, opened, resolve, reveal, store_options
from holdfast.cli.errors import WrongUse
from holdfast.cli.output import brief, cell, console, say, show_facts, show_json, show_table
from holdfast.cli.run import run
from holdfast.cli.waiting import flow_of
from holdfast.model.job import Attempt, Job
from holdfast.model.lifecycle import State
from holdfast.model.redaction import Contents

COLUMNS = ("id", "task", "queue", "state", "run", "due", "worker", "reason")
SHOWN = (
    *(
        "id",
        "task",
        "queue",
        "state",
        "priority",
        "due",
        "run",
        "failures",
        "lost",
        "version",
        "token",
        "worker",
    ),
    *("key", "created", "started", "finished", "cancel_asked", "reason"),
)
STATES = click.Choice([state.value for state in State])


def job_document(job: Job[Any]) -> dict[str, object]:
    """A job as JSON shows it."""
    return job.facts()


def job_row(job: Job[Any]) -> Sequence[object]:
    return (job.id, job.task, job.queue, job.state, job.run, job.due, job.worker, job.reason)


@click.group()
def jobs() -> None:
    """See and steer jobs."""


@jobs.command("list")
@click.option("--state", type=STATES, help="Only jobs in this state.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--task", help="Only jobs of this task.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", metavar="ID", help="Go on after this job, the last of the page before.")
@as_json
@store_options
def list_jobs(
    store: str | None, namespace: str | None, as_json: bool, limit: int, cursor: str | None, **filters: Any
) -> None:
    """List jobs, newest first."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            given = {name: value for name, value in filters.items() if value is not None}
            page = await app.find(**given, limit=limit, cursor=cursor)
        if as_json:
            show_json({"jobs": [*map(job_document, page)], "cursor": page.cursor})
            return
        show_table(COLUMNS, map(job_row, page), nothing="No such jobs.")
        if page.cursor is not None:
            say(f"More: --cursor {page.cursor}", "dim")

    run(work())


@jobs.command()
@click.argument("id")
@reveal
@as_json
@store_options
def show(store: str | None, namespace: str | None, as_json: bool, reveal: bool, id: str) -> None:
    """Show a job, its attempts, and why it stands where it stands. ID may be the start of one."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            job = await resolve(app, id)
            history = await app.history(job.id)
            explanation = await app.explain(job.id)
            partition = await app.partitions.of_job(job.id)
            flow = await flow_of(app, job.id)
            carried = await app.contents(job.id, reveal=reveal) or Contents(None, None)
        if as_json:
            document = {"job": {**job_document(job), **flow}, "attempts": history, "explanation": explanation}
            document |= {"arguments": carried.arguments, "result": carried.result}
            show_json(document if partition is None else {**document, "partition": partition})
            return
        shown = {**_facts(job), **flow, "partition": partition, **_carried(carried)}
        facts = {name: value for name, value in shown.items() if value not in (None, "", 0, False)}
        show_facts(facts)
        say("")
        _show_attempts(history)
        say("")
        say(explanation.sentence)
        if job.error:
            say("")
            for line in job.error.splitlines():
                console().print(cell(line, "dim"), soft_wrap=True)

    run(work())


def _facts(job: Job[Any]) -> dict[str, Any]:
    shown = {name: getattr(job, name) for name in SHOWN}
    shown["tags"] = ", ".join(job.tags)
    if job.progress is not None:
        note = f" ({job.progress_note})" if job.progress_note else ""
        shown["progress"] = f"{job.progress:.0%}{note}"
    return shown


def _carried(contents: Contents) -> dict[str, str | None]:
    """Arguments and result on a line each, cut if they are long."""
    shown = {"arguments": contents.arguments, "result": contents.result}
    return {name: None if value is None else brief(value) for name, value in shown.items()}


def _show_attempts(history: Sequence[Attempt]) -> None:
    columns = ("run", "outcome", "worker", "started", "finished", "token", "reason")
    rows = (
        (each.run, each.outcome, each.worker, each.started, each.finished, each.token, each.reason)
        for each in history
    )
    show_table(columns, rows, nothing="No attempt has ended yet.")


@jobs.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@as_json
@store_options
def cancel(store: str | None, namespace: str | None, as_json: bool, ids: tuple[str, ...]) -> None:
    """Cancel jobs: at once if they wait; a running one is asked to stop."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = [await resolve(app, text) for text in ids]
            answers = [(job.id, str(await app.cancel(job.id))) for job in found]
        if as_json:
            show_json({"cancelled": [{"id": job_id, "answer": answer} for job_id, answer in answers]})
            return
        show_table(("id", "answer"), answers, nothing="")

    run(work())


@jobs.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--key", help="A new idempotency key for the job; only with one ID.")
@as_json
@store_options
def replay(
    store: str | None, namespace: str | None, as_json: bool, ids: tuple[str, ...], key: str | None
) -> None:
    """Put jobs of the dead-letter queue back to work."""
    if key is not None and len(ids) > 1:
        raise WrongUse("--key is for one ID only.")

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = [await resolve(app, text) for text in ids]
            replayed = [await app.replay(job.id, key=key) for job in found]
        if as_json:
            show_json({"jobs": [*map(job_document, replayed)]})
            return
        show_table(COLUMNS, map(job_row, replayed), nothing="")

    run(work())


@click.command()
@click.argument("id")
@as_json
@store_options
def why(store: str | None, namespace: str | None, as_json: bool, id: str) -> None:
    """Say why a job is not running, or where it stands. ID may be the start of one."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            job = await resolve(app, id)
            explanation = await app.explain(job.id)
        if as_json:
            show_json({"id": job.id, "sentence": explanation.sentence, "facts": explanation.facts})
            return
        say(explanation.sentence)
        show_facts(explanation.facts)

    run(work())

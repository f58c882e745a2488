"""`holdfast batches`: which are open, how far one is; to cancel it, or to close one that was left open."""

from __future__ import annotations

import click

from holdfast.app import Holdfast
from holdfast.cli.access import as_json, opened, resolve, store_options
from holdfast.cli.errors import Failure
from holdfast.cli.output import say, show_facts, show_json, show_table
from holdfast.cli.run import run
from holdfast.engine.batches import BatchInfo
from holdfast.model.lifecycle import State


@click.group()
def batches() -> None:
    """See how far a batch is, cancel it, or close one that was left open."""


@batches.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@as_json
@store_options
def list_(store: str | None, namespace: str | None, as_json: bool, limit: int) -> None:
    """List the batches that are open: being filled, or left so by a crash. The oldest come first."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            facts = [_facts(batch) for batch in await app.batches.opened(limit)]
        if as_json:
            show_json({"batches": facts})
            return
        names = ("id", "total", "done", "failed", "pending")
        show_table(names, [[fact[name] for name in names] for fact in facts], nothing="No batch is open.")

    run(work())


@batches.command()
@click.argument("id")
@click.option("--limit", type=click.IntRange(0, 1000), default=20, show_default=True, help="Of failed jobs.")
@as_json
@store_options
def show(store: str | None, namespace: str | None, as_json: bool, id: str, limit: int) -> None:
    """Show how far a batch is, and which of its jobs failed. ID may be the start of one."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.batches.get(await _batch(app, id))
            failed = await _failed(app, found, limit)
        if as_json:
            document = {**_facts(found), "failed_jobs": [{"id": job, "state": end} for job, end in failed]}
            show_json({"batch": document})
            return
        show_facts({**_facts(found), "open": "yes" if found.is_open else "no"})
        if failed:
            say("")
            show_table(("id", "state"), failed, nothing="")
        if found.failed > len(failed):
            say(f"More failed: --limit {min(found.failed, 1000)}", "dim")

    run(work())


@batches.command()
@click.argument("id")
@store_options
def cancel(store: str | None, namespace: str | None, id: str) -> None:
    """Cancel the job at the end of a batch, and all its jobs that are not finished."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            batch = await _batch(app, id)
            count = await app.batches.cancel(batch)
        say(f"Batch {batch} is cancelled, with {count} unfinished job{'' if count == 1 else 's'}.")

    run(work())


@batches.command()
@click.argument("id")
@store_options
def close(store: str | None, namespace: str | None, id: str) -> None:
    """Close a batch that was left open, by a crash for instance: the job at its end runs after the others."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            batch = await _batch(app, id)
            await app.batches.close(batch)
            found = await app.batches.get(batch)
        say(f"Batch {batch} is closed; {found.pending} of {found.total} are not done.")

    run(work())


async def _batch(app: Holdfast, text: str) -> str:
    """The id of a batch, which is that of the job at its end."""
    job = await resolve(app, text)
    record = await app.client.session.jobs.get(job.id)
    if record is None or record.flow is None or not record.flow.after_any:
        raise Failure(f"job {job.id} is not the end of a batch")
    return job.id


async def _failed(app: Holdfast, batch: BatchInfo, limit: int) -> list[tuple[str, State]]:
    failed: list[tuple[str, State]] = []
    wanted = min(batch.failed, limit)
    if not wanted:
        return failed
    async for job_id, state in app.batches.jobs(batch.id):
        if state is not None and state is not State.SUCCESS:
            failed.append((job_id, state))
            if len(failed) == wanted:
                break
    return failed


def _facts(batch: BatchInfo) -> dict[str, object]:
    """How far it is. `done` are finished, whether they succeeded or not; `failed` did not succeed."""
    return {
        "id": batch.id,
        "state": batch.state.value,
        "total": batch.total,
        "done": batch.total - batch.pending,
        "failed": batch.failed,
        "pending": batch.pending,
        "open": batch.is_open,
    }

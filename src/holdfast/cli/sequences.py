"""`holdfast sequences`: those that a failed job has halted."""

from __future__ import annotations

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.errors import Failure
from holdfast.cli.output import say, show_json, show_table
from holdfast.cli.run import run
from holdfast.model.names import check_name

COLUMNS = ("sequence", "job", "task", "state", "reason")


@click.group()
def sequences() -> None:
    """See the sequences that a failed job has halted, and let them go on."""


@sequences.command("list")
@as_json
@store_options
def list_halted(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List the sequences that are halted, each with the job that halted it."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            halted = sorted((await app.sequences.halted()).items())
            jobs = [await app.get(job_id) for _, job_id in halted]
        found = [
            {
                "sequence": sequence,
                "job": job_id,
                "task": None if job is None else job.task,
                "state": None if job is None else job.state.value,
                "reason": None if job is None else job.reason,
            }
            for (sequence, job_id), job in zip(halted, jobs, strict=True)
        ]
        if as_json:
            show_json({"sequences": found})
            return
        rows = ([each[column] for column in COLUMNS] for each in found)
        show_table(COLUMNS, rows, nothing="No sequence is halted.")

    run(work())


@sequences.command()
@click.argument("key")
@store_options
def proceed(store: str | None, namespace: str | None, key: str) -> None:
    """Let a halted sequence go on with its next job. The failed one stays where it is."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            halting = (await app.sequences.halted()).get(check_name(key, "KEY"))
            if halting is None:
                raise Failure(f"sequence {key} is not halted")
            await app.sequences.proceed(key)
        say(f"Sequence {key} goes on without job {halting}.")

    run(work())

"""`holdfast locks`: who holds which."""

from __future__ import annotations

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.output import say, show_json, show_table
from holdfast.cli.run import run

COLUMNS = ("lock", "holder", "token", "left", "waiting")


@click.group()
def locks() -> None:
    """See which locks are held."""


@locks.command("list")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, metavar="N", help="At most so many.")
@click.option("--after", metavar="NAME", help="Those behind this name, for the next page.")
@as_json
@store_options
def list_locks(
    store: str | None, namespace: str | None, limit: int, after: str | None, as_json: bool
) -> None:
    """List the locks that are held, by name: by whom, under which token, for how long, and who waits.

    Those that begin with holdfast. are its own.
    """

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.held_locks(limit, after)
        if as_json:
            show_json({"locks": found})
            return
        columns = COLUMNS if all(each.partition is None for each in found) else ("partition", *COLUMNS)
        rows = (
            (each.partition, each.name, each.owner, each.token, f"{each.left:.1f} s", each.waiters)[
                len(COLUMNS) - len(columns) + 1 :
            ]
            for each in found
        )
        show_table(columns, rows, nothing="No lock is held.")
        if len(found) >= limit:
            say(f"There may be more: --after {found[-1].name}", "dim")

    run(work())

"""`holdfast leader`."""

from __future__ import annotations

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.output import say, show_json
from holdfast.cli.run import run


@click.command()
@as_json
@store_options
def leader(store: str | None, namespace: str | None, as_json: bool) -> None:
    """Tell which worker leads, and so fires schedules."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.leader()
        if as_json:
            show_json({"leader": found})
        elif found is None:
            say("Nobody leads: no worker or scheduler stands for election.")
        else:
            say(f"{found.worker} leads, term {found.term}; {found.left:.1f} s are left of its lease.")

    run(work())

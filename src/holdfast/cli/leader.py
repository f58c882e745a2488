"""`holdfast leader`."""

from __future__ import annotations

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.output import say, show_json
from holdfast.cli.run import run
from holdfast.engine.leader import LeaderInfo


@click.command()
@as_json
@store_options
def leader(store: str | None, namespace: str | None, as_json: bool) -> None:
    """Tell which worker leads, and so fires schedules; in each partition, if there are several."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            if app.partitions.names:
                _show(await app.partitions.leaders(), as_json)
                return
            found = await app.leader()
        if as_json:
            show_json({"leader": found})
        else:
            say(_sentence(found))

    run(work())


def _show(leaders: dict[str, LeaderInfo | None], as_json: bool) -> None:
    if as_json:
        show_json({"leaders": leaders})
        return
    for partition, found in leaders.items():
        say(f"{partition}: {_sentence(found)}")


def _sentence(found: LeaderInfo | None) -> str:
    if found is None:
        return "Nobody leads: no worker or scheduler stands for election."
    return f"{found.worker} leads, term {found.term}; {found.left:.1f} s are left of its lease."

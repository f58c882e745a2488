"""`holdfast torture`: kills, freezes and cuts off real processes at work, and judges what stands at the end."""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

import click

from holdfast.cli.output import console, say


@click.command()
@click.option("--store", default="sqlite:", show_default=True, metavar="URL", help="sqlite:, postgresql:, redis: or a URL.")
@click.option("--jobs", type=click.IntRange(100, 100_000_000), default=10_000, show_default=True)
@click.option("--seed", type=int, help="Which faults come when; drawn if not given, and told.")
@click.option("--seconds", type=click.FloatRange(5), metavar="S", help="End the faults after so long.")
@click.option("--out", type=click.Path(path_type=Path), help="Where histories, logs and the report go.")
def torture(store: str, jobs: int, seed: int | None, seconds: float | None, out: Path | None) -> int:
    from holdfast.torture import campaign as running
    from holdfast.torture.arenas.sqlite import SqliteArena
    from holdfast.torture.screen import LiveScreen, PlainScreen
    from holdfast.torture.settings import Campaign
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    out = out or Path(tempfile.mkdtemp(prefix="holdfast-torture-"))
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    say(f"seed {seed}, {jobs} jobs, {out}")
    campaign = Campaign(store=store, jobs=jobs, seed=seed, out=out, seconds=seconds)
    arena = SqliteArena(out)
    con = console(sys.stderr)
    screen = LiveScreen(con) if sys.stderr.isatty() else PlainScreen(con)
    with screen:
        ended = asyncio.run(running.run(campaign, arena, screen))
    say(f"{ended}")
    return 0

"""`holdfast torture`: kills, freezes and cuts off real processes at work, and judges what stands then."""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

import click

from holdfast.cli.errors import DONE, FAILED
from holdfast.cli.output import console, say, show_facts
from holdfast.model.masking import mask_url
from holdfast.torture import campaign as campaigns
from holdfast.torture.checker.case import read_case
from holdfast.torture.checker.judging import Judgement, judge
from holdfast.torture.report import write_report
from holdfast.torture.screen import LiveScreen, PlainScreen
from holdfast.torture.settings import Campaign

VACUOUS = 3


@click.command()
@click.option(
    "--store",
    default="sqlite:",
    show_default=True,
    metavar="URL",
    help="sqlite:, postgresql: or redis: for one of its own; or the URL of a server to be tortured.",
)
@click.option(
    "--jobs", type=click.IntRange(100, 100_000_000), default=10_000, show_default=True, help="How many jobs."
)
@click.option("--seed", type=int, metavar="N", help="Which jobs and faults come when; drawn if not given.")
@click.option(
    "--seconds", type=click.FloatRange(5), metavar="S", help="End the faults after so long at the latest."
)
@click.option("--workers", type=click.IntRange(2, 64), default=4, show_default=True, help="Worker processes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="A new or empty folder for histories, logs and the report.",
)
def torture(
    store: str, jobs: int, seed: int | None, seconds: float | None, workers: int, out: Path | None
) -> int:
    """Torture a store: run jobs while processes and the way to the store fail, and check every promise.

    Exit code 0: no promise is broken, and enough happened for that to mean something. 1: one is broken.
    3: none is, but too little happened.
    """
    chosen = secrets.randbelow(1_000_000) if seed is None else seed
    campaign = Campaign(
        store=store, jobs=jobs, seed=chosen, out=_folder(out), seconds=seconds, workers=workers
    )
    say(f"{mask_url(store)}: {jobs:,} jobs, seed {chosen}, all is written to {campaign.out}")
    terminal = console(sys.stderr)
    with LiveScreen(terminal) if sys.stderr.isatty() else PlainScreen(terminal) as screen:
        asyncio.run(campaigns.run(campaign, screen))
    case = read_case(campaign.out)
    judgement = judge(case)
    write_report(campaign.out, case, judgement)
    _show(judgement)
    say(f"report: {campaign.out / 'report.html'}")
    return {"passed": DONE, "violated": FAILED, "vacuous": VACUOUS}[judgement.word]


def _folder(out: Path | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-torture-")) if out is None else out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise click.UsageError(f"--out: {folder} is not empty; a campaign needs a folder of its own.")
    return folder


def _show(judgement: Judgement) -> None:
    figures = judgement.figures
    faults = ", ".join(f"{count:,} × {name}" for name, count in figures.faults.items())
    show_facts(
        {
            "jobs": f"{figures.jobs:,}",
            "faults": faults,
            "taken over": f"{figures.takeovers:,}",
            "stale writes": f"{figures.stale_writes:,}, all refused"
            if not judgement.broken
            else figures.stale_writes,
            "leader changes": f"{figures.leader_changes:,}",
        }
    )
    for ruling in judgement.rulings:
        if ruling.violations:
            say(f"{ruling.name} broken {ruling.violations:,} times: {ruling.title}", "bold red")
            for finding in ruling.findings[:3]:
                say(f"  {finding.sentence}")
    for floor in judgement.floors:
        if not floor.is_reached:
            say(f"too little happened: {floor.name}: {floor.reached:,} of at least {floor.least:,}", "yellow")
    say(judgement.word, "bold green" if judgement.word == "passed" else "bold red")

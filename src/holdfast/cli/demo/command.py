"""The `demo` command."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from holdfast.cli.demo.crew import Crew
from holdfast.cli.demo.screen import LiveScreen, PlainScreen
from holdfast.cli.demo.story import Story, StoryError, Summary
from holdfast.cli.errors import Failure
from holdfast.cli.output import console, say, show_facts
from holdfast.cli.run import run
from holdfast.sample import app, sample

DRAIN_SECONDS = 20.0


@click.command()
@click.option("--jobs", type=click.IntRange(4, 500), default=12, show_default=True, help="How many jobs.")
@click.option(
    "--workers", type=click.IntRange(3, 8), default=3, show_default=True, help="How many processes."
)
@click.option(
    "--length", type=click.FloatRange(0.5, 60), default=2.0, show_default=True, help="Seconds per job."
)
@click.option(
    "--lease", type=click.FloatRange(1, 60), default=2.0, show_default=True, help="Seconds per lease."
)
@click.option("--plain", is_flag=True, help="Lines instead of a live picture.")
def demo(jobs: int, workers: int, length: float, lease: float, plain: bool) -> int:
    """Watch workers be killed and frozen, and the work get done once.

    Needs nothing: it uses a temporary SQLite file. Takes about half a minute.
    """
    live = sys.stdout.isatty() and not plain
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        try:
            summary = run(_perform(Path(folder), jobs, workers, length, lease, live))
        except StoryError as error:
            raise Failure(f"the demo could not be shown: {error}") from None
    return _conclude(summary)


async def _perform(folder: Path, jobs: int, workers: int, length: float, lease: float, live: bool) -> Summary:
    database = folder / "demo.db"
    url = f"sqlite:///{database}"
    screen = LiveScreen(console()) if live else PlainScreen(console())
    (folder / "holdfast.toml").write_text(f'store = "{url}"\nreclaim_seconds = 0.5\n', encoding="utf-8")
    async with app.configured(store=url, namespace="default"):
        with Crew(workers, folder, lease) as crew, screen:
            story = Story(app, crew, database, screen, await_progress=length >= lease)
            summary = await story.play([sample.call(number, length) for number in range(1, jobs + 1)])
            await _drain(crew)
            screen.draw(story.scene)
    return summary


async def _drain(crew: Crew) -> None:
    codes = await crew.drain(DRAIN_SECONDS)
    for name, code in codes.items():
        if code != 0:
            raise StoryError(f"worker {name} did not stop in order (exit code {code})")


def _conclude(summary: Summary) -> int:
    say("")
    show_facts(
        {
            "jobs accepted": summary.accepted,
            "completed": summary.completed,
            "attempts": summary.attempts,
            "take-overs": summary.take_overs,
            "late writes refused": summary.late_writes_refused,
            "lost": summary.lost,
            "completed twice": summary.completed_twice,
        }
    )
    if not summary.proves_it:
        say("These numbers do not prove it: this is a defect, please report it.", "bold red")
        return 1
    say(
        "Every number was read from the store. One worker died, one slept past its lease, no work was lost.",
        "green",
    )
    return 0

"""`python -m holdfast.testing.simulation --seeds 5000`: looks for a seed that breaks a promise."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.testing.simulation.campaign import Tally, run
from holdfast.testing.simulation.seed import Result
from holdfast.testing.simulation.weakened import NAMES

COMMAND = "python -m holdfast.testing.simulation"
MOST_SHOWN = 5


@click.command(help=__doc__)
@click.option("--seeds", default=500, show_default=True, help="How many.")
@click.option("--first", default=0, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="This one alone, with its last calls.")
@click.option("--at-once", type=int, help="In how many processes; by default one for each processor.")
@click.option("--weaken", type=click.Choice(NAMES), help="Leave out a guard of the store, to see it found.")
def main(seeds: int, first: int, seed: int | None, at_once: int | None, weaken: str | None) -> None:
    """Runs the seeds and says what came of them; ends with 1 if one failed."""
    console = Console()
    numbers = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    tally = Tally()
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[told]}"), console=console) as progress:
        shown = progress.add_task("", total=len(numbers), told="")
        for result in run(numbers, at_once=at_once, weak=weaken):
            tally.add(result)
            progress.update(shown, advance=1, told=f"{len(tally.failed)} failed")
            if result.faults_found and len(tally.failed) <= MOST_SHOWN:
                _tell(console, result, weaken)
    if seed is not None:
        console.print(*tally_lines(tally, seed), sep="\n", markup=False, highlight=False)
    console.print(tally.line(), markup=False, highlight=False)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.counts.items()))
    console.print(counts, markup=False, highlight=False)
    sys.exit(1 if tally.failed else 0)


def tally_lines(tally: Tally, seed: int) -> list[str]:
    return [f"seed {seed} has nothing to show"] if not tally.failed else tally.failed[0].lines


def _tell(console: Console, result: Result, weaken: str | None) -> None:
    told = [f"seed {result.seed} failed:", *(f"  {each}" for each in result.faults_found[:MOST_SHOWN])]
    replay = f"{COMMAND} --seed {result.seed}" + (f" --weaken {weaken}" if weaken else "")
    console.print(*told, f"see it again: {replay}", sep="\n", markup=False, highlight=False)


if __name__ == "__main__":
    main()

"""`python -m benchmarks [names…] [--quick] [--json FILE] [--folder FOLDER]`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.cases import CASES
from benchmarks.harness import run_case
from benchmarks.plan import FULL, QUICK, TINY, Plan
from benchmarks.report import show, write_json, write_markdown

PLANS = {plan.name: plan for plan in (FULL, QUICK, TINY)}


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a goal was measured and not reached."""
    given = _parse(arguments)
    plan: Plan = PLANS["quick" if given.quick else given.plan]
    names = given.names or [case.name for case in CASES if case.usual]
    console = Console()
    begun = time.perf_counter()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - begun:6.1f} s  {line}\n")

    chosen = [case for case in CASES if case.name in names]
    outcomes = [run_case(case, plan, given.folder, say, patience=given.patience) for case in chosen]
    show(outcomes, console)
    write_json(outcomes, plan, given.json)
    write_markdown(outcomes, plan, given.json.with_suffix(".md"))
    measured = [(goal, goal.spread(outcome.rounds)) for outcome in outcomes for goal in outcome.case.goals]
    return int(any(spread is not None and not goal.is_reached(spread) for goal, spread in measured))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    known = "\n".join(f"  {case.name:<10} {case.title}" for case in CASES)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Holdfast beside a peer and the raw engine.",
        epilog=f"cases:\n{known}\n\nWithout names, all but the last.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds; to look, not to quote")
    parser.add_argument("--plan", choices=PLANS, default=FULL.name, help="counts; the default is %(default)s")
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("build/benchmarks.json"),
        metavar="FILE",
        help="where results go, and beside it the same as Markdown; the default is %(default)s",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        metavar="SECONDS",
        help="wait so long at most, before each measurement, for other processes to be calm (%(default)s)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where the databases are made: on a real disk, or durability costs nothing (%(default)s)",
    )
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in {case.name for case in CASES}:
            parser.error(f"no case is called {name!r}; see --help")
    return given


if __name__ == "__main__":
    sys.exit(main())

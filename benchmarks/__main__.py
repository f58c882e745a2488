"""`python -m benchmarks [names…] [--quick] [--json FILE] [--folder FOLDER] [--postgres URL] …`."""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.case import Case
from benchmarks.cases import CASES
from benchmarks.harness import Outcome, run_case
from benchmarks.plan import FULL, QUICK, TINY, Plan
from benchmarks.postgres import server as postgres
from benchmarks.redis import server as redis
from benchmarks.report import show, write_json, write_markdown

PLANS = {plan.name: plan for plan in (FULL, QUICK, TINY)}


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 when a goal was measured and not reached."""
    given = _parse(arguments)
    plan: Plan = PLANS["quick" if given.quick else given.plan]
    if given.rounds:
        plan = replace(plan, rounds=given.rounds)
    plan = plan.scaled(given.scale)
    console = Console()
    begun = time.perf_counter()

    def say(line: str) -> None:
        sys.stderr.write(f"{time.perf_counter() - begun:6.1f} s  {line}\n")

    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        chosen = [case for case in CASES if _is_chosen(case, given.names)]
        suites = {case.suite for case in chosen}
        servers = {
            suite: stack.enter_context(provide(named))
            for suite, provide, named in (
                ("postgres", postgres.provide, given.postgres),
                ("redis", redis.provide, given.redis),
            )
            if suite in suites
        }
        for case in chosen:
            server = servers.get(case.suite) if case.suite else None
            outcomes.append(
                run_case(
                    case, plan, given.folder, say, patience=given.patience, server=server, peers=given.peers
                )
            )
            write_json(outcomes, plan, servers, given.json)
    show(outcomes, console)
    write_markdown(outcomes, plan, servers, given.json.with_suffix(".md"))
    measured = [(goal, goal.spread(outcome.rounds)) for outcome in outcomes for goal in outcome.case.goals]
    return int(any(spread is not None and not goal.is_reached(spread) for goal, spread in measured))


def _is_chosen(case: Case, names: list[str]) -> bool:
    return case.name in names or case.suite in names if names else case.usual


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    known = "\n".join(f"  {case.name:<10} {case.title}" for case in CASES)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Holdfast beside a peer and the raw engine.",
        epilog=(
            f"cases:\n{known}\n\n`postgres` names all of pg-…, `redis` all of redis-…. "
            "Without names: all others but `huey`."
        ),
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
    parser.add_argument("--rounds", type=int, metavar="N", help="another number of rounds than the plan's")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="PART",
        help="so much of the history of pg-growth, for a small disk, and of counts on Redis (%(default)s)",
    )
    parser.add_argument(
        "--postgres",
        default=os.environ.get(postgres.SETTING),
        metavar="URL",
        help=f"a server to make databases on (or {postgres.SETTING}); else one is started, below TMPDIR",
    )
    parser.add_argument(
        "--redis",
        default=os.environ.get(redis.SETTING),
        metavar="URL",
        help=f"an empty database, emptied again and again (or {redis.SETTING}); else a server is started",
    )
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="install nothing, and leave out what needs it"
    )
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in {case.name for case in CASES} | {case.suite for case in CASES}:
            parser.error(f"no case is called {name!r}; see --help")
    return given


if __name__ == "__main__":
    sys.exit(main())

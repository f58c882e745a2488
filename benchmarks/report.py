"""Results as a table on the terminal, as JSON, and as Markdown."""

import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.case import Goal, Spread
from benchmarks.engine import Server
from benchmarks.harness import Outcome
from benchmarks.plan import Plan

HEAD = ("case", "side", "figure", "median", "min – max")
GOALS = ("goal", "measured", "min – max", "reached")

Servers = Mapping[str, Server]
"""Those that were measured on, by the name of their suite."""


def machine(servers: Servers) -> dict[str, str]:
    """What the figures depend on, in general terms."""
    return {
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": f"{sqlite3.sqlite_version}, journal_mode=WAL, synchronous=FULL",
        "huey": _version("huey"),
        **{name: server.facts for name, server in servers.items()},
    }


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    figures = Table(*HEAD, title="Figures")
    goals = Table(*GOALS, title="Goals")
    for column in (*figures.columns[3:], *goals.columns[1:3]):
        column.justify = "right"
    for outcome in outcomes:
        for cells in _figures(outcome):
            figures.add_row(*cells)
        for cells in _goals(outcome):
            goals.add_row(*cells)
    console.print(figures)
    console.print(goals)
    console.print(_calibration(outcomes))


def write_json(outcomes: Sequence[Outcome], plan: Plan, servers: Servers, path: Path) -> None:
    data = {
        "machine": machine(servers),
        "plan": asdict(plan),
        "cases": [_plain(outcome) for outcome in outcomes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")


def write_markdown(outcomes: Sequence[Outcome], plan: Plan, servers: Servers, path: Path) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in machine(servers).items())
    lines = [f"{plan.name} run, {plan.rounds} rounds; {facts}", "", *_markdown(HEAD, map(_figures, outcomes))]
    lines += ["", *_markdown(GOALS, map(_goals, outcomes)), "", _calibration(outcomes), ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def _plain(outcome: Outcome) -> dict[str, Any]:
    goals = [(goal, goal.spread(outcome.rounds)) for goal in outcome.case.goals]
    return {
        "name": outcome.case.name,
        "title": outcome.case.title,
        "rounds": outcome.rounds,
        "goals": [
            {
                "text": goal.text,
                "measured": spread and asdict(spread),
                "reached": spread and goal.is_reached(spread),
            }
            for goal, spread in goals
        ],
        "calibrations": [asdict(each) for each in outcome.calibrations],
        "others_cores": outcome.others,
        "left_out": outcome.left_out,
    }


def _figures(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    for side in outcome.rounds[0]:
        for figure in outcome.rounds[0][side]:
            spread = outcome.spread(side, figure)
            yield outcome.case.name, side, figure, _number(spread.median), _range(spread)
    for side, reason in outcome.left_out.items():
        yield outcome.case.name, side, reason, "–", "–"


def _goals(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    for goal in outcome.case.goals:
        spread = goal.spread(outcome.rounds)
        if spread is None:
            yield goal.text, "not measured", "–", "–"
        else:
            yield goal.text, _value(goal, spread), _range(spread), "yes" if goal.is_reached(spread) else "NO"


def _value(goal: Goal, spread: Spread) -> str:
    return f"{_number(spread.median)} {'×' if goal.over else goal.figure}"


def _calibration(outcomes: Sequence[Outcome]) -> str:
    """How even the machine was: each between its lowest and highest."""
    probes = [each for outcome in outcomes for each in outcome.calibrations]
    commits = Spread.of([each.commits_per_second for each in probes])
    python = Spread.of([each.python_mops for each in probes])
    text = (
        f"Calibration, {len(probes)} times: {_number(commits.median)} ({_range(commits)}) one-row commits/s, "
        f"{_number(python.median)} ({_range(python)}) million loop steps/s"
    )
    others = [cores for outcome in outcomes for cores in outcome.others]
    if not others:
        return text
    spread = Spread.of(others)
    return f"{text}; other processes used {_number(spread.median)} ({_range(spread)}) cores"


def _range(spread: Spread) -> str:
    return f"{_number(spread.lowest)} – {_number(spread.highest)}"


def _number(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _markdown(head: tuple[str, ...], parts: Iterator[Iterator[tuple[str, ...]]]) -> list[str]:
    rows = [head, ("---",) * len(head), *(row for part in parts for row in part)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"

"""The harness at tiny counts, without fresh processes: that every case runs, counts right and is reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.__main__ import main
from benchmarks.case import Goal
from benchmarks.cases import CASES


def call_here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def test_every_case_runs_and_is_reported_as_table_json_and_markdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(harness, "in_fresh_process", call_here)
    report = tmp_path / "out" / "report.json"
    main(["--plan", "tiny", "--folder", str(tmp_path), "--json", str(report)])
    told = json.loads(report.read_text())
    assert [case["name"] for case in told["cases"]] == [case.name for case in CASES if case.usual]
    for case in told["cases"]:
        for measured in case["rounds"]:
            assert all(value >= 0 for figures in measured.values() for value in figures.values())
    markdown = report.with_suffix(".md").read_text()
    for case in CASES:
        for goal in case.goals if case.usual else ():
            assert goal.text in markdown
    assert "Calibration" in capsys.readouterr().out


def test_a_goal_compares_with_the_best_of_the_others_in_the_same_round() -> None:
    goal = Goal(text="", side="ours", figure="jobs/s", over=("peer", "other"), at_least=4)
    rounds = [
        {"ours": {"jobs/s": 100.0}, "peer": {"jobs/s": 10.0}, "other": {"jobs/s": 20.0}},
        {"ours": {"jobs/s": 10.0}, "peer": {"jobs/s": 5.0}, "other": {"jobs/s": 1.0}},
        {"ours": {"jobs/s": 80.0}, "peer": {"jobs/s": 20.0}, "other": {"jobs/s": 10.0}},
    ]
    spread = goal.spread(rounds)
    assert spread is not None
    assert (spread.median, spread.lowest, spread.highest) == (4, 2, 5)
    assert goal.is_reached(spread)


def test_a_goal_without_its_peer_is_not_measured_rather_than_reached() -> None:
    goal = Goal(text="", side="ours", figure="jobs/s", over=("peer",), at_least=4)
    assert goal.spread([{"ours": {"jobs/s": 100.0}}]) is None

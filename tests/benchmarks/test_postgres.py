"""The cases on PostgreSQL at tiny counts: that every measure runs, and counts right. Peers are left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.__main__ import main
from benchmarks.case import Goal, Missing, Side
from benchmarks.postgres.cases import CASES


def call_here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@pytest.mark.parametrize("name", [case.name for case in CASES if case.name != "pg-two"])
def test_a_case_on_a_server_is_measured_without_its_peers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_server: str
) -> None:
    monkeypatch.setattr(harness, "in_fresh_process", call_here)
    report = tmp_path / "report.json"
    where = ["--postgres", postgres_server, "--folder", str(tmp_path), "--json", str(report)]
    main([name, "--plan", "tiny", "--no-peers", *where])
    told = json.loads(report.read_text())
    (case,) = told["cases"]
    (measured,) = case["rounds"]
    known = next(known for known in CASES if known.name == name)
    assert set(measured) | set(case["left_out"]) == {side.name for side in known.sides}
    assert set(case["left_out"]) == {side.name for side in known.sides if side.install is not None}
    assert all(value >= 0 for figures in measured.values() for value in figures.values())
    assert "synchronous_commit=on" in told["machine"]["postgres"]


def test_a_suite_is_named_as_a_whole_and_is_not_part_of_the_usual_run() -> None:
    assert {case.suite for case in CASES} == {"postgres"}
    assert not any(case.usual for case in CASES)


def test_where_less_is_better_a_goal_compares_with_the_least_of_the_others() -> None:
    goal = Goal(text="", side="ours", figure="p99 ms", over=("peer", "other"), at_most=1)
    spread = goal.spread([{"ours": {"p99 ms": 4.0}, "peer": {"p99 ms": 2.0}, "other": {"p99 ms": 8.0}}])
    assert spread is not None
    assert spread.median == 2
    assert not goal.is_reached(spread)


def test_a_peer_that_cannot_be_installed_is_left_out_with_the_reason() -> None:
    def install() -> None:
        raise Missing("needs Node 20 with npm")

    side = Side("peer", lambda plan, place: {}, install=install)
    assert harness._lacks(side, peers=True) == "needs Node 20 with npm"
    assert harness._lacks(side, peers=False) == "peers were not asked for"

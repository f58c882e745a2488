"""The measurements of partitions at tiny counts: that each runs, and counts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.__main__ import main
from benchmarks.partition import REDIS


def call_here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@pytest.mark.timeout(150)
def test_one_redis_server_and_three_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setattr(harness, "in_fresh_process", call_here)
    report = tmp_path / "report.json"
    main(["redis-partition", "--plan", "tiny", "--redis", redis_url, "--json", str(report)])
    (case,) = json.loads(report.read_text())["cases"]
    (measured,) = case["rounds"]
    assert set(measured) == {side.name for side in REDIS[0].sides}
    assert all(figures["jobs/s"] > 0 and figures["enqueued/s"] > 0 for figures in measured.values())

"""Processes that only stand for election and fire."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start, read_until

pytestmark = pytest.mark.process

CLOCK = """
from holdfast import Holdfast, every

app = Holdfast("sqlite:///jobs.db", leader_candidate=False)

@app.schedule(every(seconds=1), overlap="allow")
@app.task
def tick() -> None:
    pass
"""


@pytest.fixture(autouse=True)
def clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "clock.py").write_text(CLOCK)
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "debug")
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///jobs.db")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_scheduler_stores_what_is_declared_fires_it_and_ends_well(
    holdfast: Run, start: Start, number: signal.Signals
) -> None:
    process = start("scheduler", "clock:app")
    read_until(process, 'event="scheduler started"')
    read_until(process, 'event="leader elected"')
    read_until(process, 'event="schedule fired"')
    told = json.loads(holdfast("leader", "--json").stdout)["leader"]
    assert f"-{process.pid}-" in told["worker"]
    assert f"term {told['term']}" in holdfast("leader").stdout
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert 'event="scheduler stopped"' in err
    assert "Traceback" not in err
    assert json.loads(holdfast("leader", "--json").stdout) == {"leader": None}
    assert "Nobody leads" in holdfast("leader").stdout
    (schedule,) = json.loads(holdfast("schedules", "list", "--json").stdout)["schedules"]
    assert (schedule["name"], schedule["last_due"] is None) == ("tick", False)
    jobs = json.loads(holdfast("jobs", "list", "--json").stdout)["jobs"]
    assert {job["state"] for job in jobs} == {"scheduled"}


def test_the_next_in_line_leads_as_soon_as_the_leader_resigns(start: Start) -> None:
    first = start("scheduler", "clock:app", "--lease", "600")
    read_until(first, 'event="leader elected"')
    second = start("scheduler", "clock:app", "--lease", "600")
    read_until(second, 'event="scheduler started"')
    first.terminate()
    assert first.wait(20) == 0
    read_until(second, 'event="leader elected"')
    read_until(second, 'event="schedule fired"')


def test_a_worker_beside_runs_what_the_scheduler_fires(start: Start) -> None:
    scheduler = start("scheduler", "clock:app")
    worker = start("worker", "clock:app")
    read_until(worker, "task=tick")
    for process in (scheduler, worker):
        process.terminate()
        _, err = process.communicate()
        assert process.returncode == 0, err


def test_a_scheduler_waits_for_a_store_that_it_cannot_reach_yet(
    holdfast: Run, start: Start, folder: Path
) -> None:
    assert holdfast("migrate").returncode == 0
    with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = start("scheduler", "clock:app", "--store", "sqlite:///jobs.db?timeout=0.05")
        read_until(process, 'event="store unreachable"')
    read_until(process, 'event="leader elected"')
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 0, err

"""The cases on Redis at tiny counts: that every measure runs, and counts right. Peers are left out."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.__main__ import main
from benchmarks.program import Program
from benchmarks.redis.cases import CASES
from benchmarks.redis.programs import locking
from benchmarks.redis.programs.locking import Tally
from benchmarks.running import call, working
from tests.servers.redis import execute


def call_here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def script(text: str) -> Program:
    return Program(lambda: [sys.executable, "-c", text], "")


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_a_case_on_redis_is_measured_without_its_peers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setattr(harness, "in_fresh_process", call_here)
    report = tmp_path / "report.json"
    where = ["--redis", redis_url, "--folder", str(tmp_path), "--json", str(report)]
    main([name, "--plan", "tiny", "--no-peers", *where])
    told = json.loads(report.read_text())
    (case,) = told["cases"]
    (measured,) = case["rounds"]
    known = next(known for known in CASES if known.name == name)
    assert set(measured) | set(case["left_out"]) == {side.name for side in known.sides}
    assert set(case["left_out"]) == {side.name for side in known.sides if side.install is not None}
    assert all(value >= 0 for figures in measured.values() for value in figures.values())
    assert "appendonly=no" in told["machine"]["redis"]
    assert execute(redis_url, "DBSIZE") == 0


def test_a_named_database_that_holds_something_is_refused(redis_url: str, tmp_path: Path) -> None:
    execute(redis_url, "SET", "theirs", "1")
    with pytest.raises(SystemExit, match="1 keys, which would be deleted"):
        main(["redis-work", "--redis", redis_url, "--folder", str(tmp_path)])
    assert execute(redis_url, "GET", "theirs") == b"1"


def test_the_suite_is_named_as_a_whole_and_is_not_part_of_the_usual_run() -> None:
    assert {case.suite for case in CASES} == {"redis"}
    assert not any(case.usual for case in CASES)


async def test_jobs_are_added_up_over_the_processes_of_a_worker_whatever_else_it_prints() -> None:
    told = ["", "a greeting", "ran 1 70 11", "ran 1 60 12", "ran 200 80 11", "start 5 9"]
    waiting = script(f"import signal; print(*{told}, sep=chr(10), flush=True); signal.pause()")
    async with working(waiting, "redis://nowhere") as (worker,):
        while not worker.started:
            await asyncio.wait_for(worker.news(), 30)
        assert worker.ran == 201
        assert worker.first == 70
        assert worker.started == [(5, 9)]


async def test_what_a_program_tells_when_it_is_done_is_given_and_its_failure_is_raised() -> None:
    assert await call(script("print('done 2.5 1 40 7')"), "locks", "redis://nowhere") == (2.5, 1, 40, 7)
    with pytest.raises(RuntimeError, match="it broke"):
        await call(script("raise SystemExit('it broke')"), "locks", "redis://nowhere")


def test_two_inside_of_one_lock_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[str] = []
    monkeypatch.setattr(locking, "end", problems.append)
    tally = Tally()
    tally.enter("a")
    tally.enter("b")
    assert problems == []
    tally.enter("a")
    assert problems == ["two are inside of the lock a"]

import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start, read_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_worker_well(start: Start, number: signal.Signals) -> None:
    process = start("worker", "shop:app", "--store", "memory://")
    line = read_until(process, 'event="worker started"')
    assert " worker=" in line
    assert " level=info " in line
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 0
    assert 'event="worker stopped"' in err
    assert "Traceback" not in err


def test_log_lines_are_json_when_asked_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LOG_FORMAT", "json")
    process = start("worker", "shop:app", "--store", "memory://")
    line = json.loads(read_until(process, "worker started"))
    assert line["event"] == "worker started"
    assert line["logger"] == "holdfast.worker"
    process.terminate()
    process.communicate()
    assert process.returncode == 0


def test_several_processes_end_together_with_one_signal(start: Start) -> None:
    process = start("worker", "shop:app", "--store", "memory://", "--processes", "2")
    read_until(process, 'event="worker started"', times=2)
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 0
    assert err.count('event="worker stopped"') == 2


def test_drain_ends_when_there_is_nothing_to_do(holdfast: Run) -> None:
    assert holdfast("worker", "shop:app", "--store", "memory://", "--drain").returncode == 0
    ended = holdfast("worker", "shop:app", "--store", "memory://", "--drain", "--processes", "2")
    assert ended.returncode == 0, ended.stderr


ID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
STRATEGIES = """
class Backwards:
    def order(self, queues, turn, random):
        return queues[::-1]

mine = Backwards()
"""


@pytest.mark.parametrize(
    ("strategy", "first"), [("strict", "one"), ("mine:mine", "two"), ("weighted", None), ("rotating", None)]
)
def test_a_strategy_says_which_queue_is_served_first(
    holdfast: Run, folder: Path, strategy: str, first: str | None
) -> None:
    (folder / "mine.py").write_text(STRATEGIES)
    store = f"--store=sqlite:///{folder}/jobs.db"
    queues: dict[str, str] = {}
    for queue in ("two", "one"):
        added = holdfast("enqueue", "shop:app", "pause", "[0]", "--queue", queue, store)
        [job] = re.findall(ID, added.stdout)
        queues[job] = queue
    command = ("worker", "shop:app", "-q", "one", "-q", "two", "--strategy", strategy, "-c", "1", "--drain")
    ended = holdfast(*command, store)
    assert ended.returncode == 0, ended.stderr
    begun = [line for line in ended.stderr.splitlines() if "pause begins" in line]
    served = [queues[job] for line in begun for job in re.findall(ID, line) if job in queues]
    assert {*served} == {"one", "two"}
    assert first in (None, served[0])


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("fair", "give one of rotating, strict, weighted, or your own as module:name"),
        ("mine:Backwards", "it must be an object with order(queues, turn, random)"),
        ("mine:nobody", "module 'mine' has no 'nobody'"),
        ("nowhere:mine", "there is no module 'nowhere'"),
    ],
)
def test_what_is_no_strategy_is_refused(holdfast: Run, folder: Path, strategy: str, said: str) -> None:
    (folder / "mine.py").write_text(STRATEGIES)
    ended = holdfast("worker", "shop:app", "--store", "memory://", "--strategy", strategy, "--drain")
    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_module_keeps_its_own_logging(holdfast: Run, folder: Path) -> None:
    source = (folder / "shop.py").read_text()
    (folder / "loud.py").write_text(
        "import logging\nlogging.basicConfig(format='mine %(message)s', level='INFO')\n" + source
    )
    ended = holdfast("worker", "loud:app", "--store", "memory://", "--drain")
    assert "mine worker started\n" in ended.stderr
    assert "event=" not in ended.stderr


FILE = ("--store", "sqlite:///jobs.db")


def state_of(holdfast: Run, job_id: str) -> str:
    document = json.loads(holdfast("jobs", "show", job_id, "--json", *FILE).stdout)
    return str(document["job"]["state"])


def test_the_first_signal_lets_a_running_job_finish(holdfast: Run, start: Start) -> None:
    job_id = holdfast("enqueue", "shop:app", "pause", "[1]", *FILE).stdout.strip()
    process = start("worker", "shop:app", *FILE)
    read_until(process, "pause begins")
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert state_of(holdfast, job_id) == "success"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_second_signal_cuts_short_and_releases(
    holdfast: Run, start: Start, number: signal.Signals, code: int
) -> None:
    job_id = holdfast("enqueue", "shop:app", "pause", "[50]", *FILE).stdout.strip()
    process = start("worker", "shop:app", *FILE)
    read_until(process, "pause begins")
    process.send_signal(number)
    read_until(process, "forced=false")
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code, err
    assert state_of(holdfast, job_id) == "scheduled"


def test_a_worker_waits_for_a_store_that_it_cannot_reach_yet(
    holdfast: Run, start: Start, folder: Path
) -> None:
    assert holdfast("migrate", *FILE).returncode == 0
    with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = start("worker", "shop:app", "--store", "sqlite:///jobs.db?timeout=0.05")
        read_until(process, 'event="store unreachable"')
    read_until(process, 'event="worker started"')
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 0, err


def test_a_killed_worker_process_is_replaced(start: Start) -> None:
    process = start("worker", "shop:app", "--processes", "2", *FILE)
    line = read_until(process, 'event="worker process started"')
    read_until(process, 'event="worker started"', times=2)
    found = re.search(r"pid=(\d+)", line)
    assert found is not None
    os.kill(int(found[1]), signal.SIGKILL)
    assert "code=137" in read_until(process, "worker process ended, starting another")
    read_until(process, 'event="worker started"')
    process.terminate()
    _, err = process.communicate()
    assert process.returncode == 0, err


FORGED = '\ntime=2026-01-01T00:00:00Z level=info event=forged \x1b[2J\u202e " \\'


def test_no_payload_can_forge_or_enter_the_log(holdfast: Run) -> None:
    for arguments in (["explode", json.dumps([FORGED])], ["add", '{"a": 987654321, "b": 123456789}']):
        assert holdfast("enqueue", "shop:app", *arguments, *FILE).returncode == 0
    ended = holdfast("worker", "shop:app", "--drain", *FILE, HOLDFAST_LOG_LEVEL="debug")
    assert ended.returncode == 0
    lines = ended.stderr.splitlines()
    assert lines
    assert all(line.startswith("time=") and "time=2026-01-01T00:00:00Z" not in line[:30] for line in lines)
    assert "\x1b" not in ended.stderr
    assert "\u202e" not in ended.stderr
    assert "987654321" not in ended.stderr
    assert " event=forged" not in re.sub(r'"(\\.|[^"\\])*"', "", ended.stderr)

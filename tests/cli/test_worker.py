import json
import signal
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


def test_a_module_keeps_its_own_logging(holdfast: Run, folder: Path) -> None:
    source = (folder / "shop.py").read_text()
    (folder / "loud.py").write_text(
        "import logging\nlogging.basicConfig(format='mine %(message)s', level='INFO')\n" + source
    )
    ended = holdfast("worker", "loud:app", "--store", "memory://", "--drain")
    assert "mine worker started\n" in ended.stderr
    assert "event=" not in ended.stderr

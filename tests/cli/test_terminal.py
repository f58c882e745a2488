"""What is shown on a terminal, and what is not shown elsewhere."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start

pytestmark = pytest.mark.process


def on_a_terminal(folder: Path, *arguments: str, **environ: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environ},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        # Linux answers so when the last writer has gone.
        assert process.wait() == 0, shown
    finally:
        os.close(ours)
    assert process.wait() == 0
    return shown.decode()


def test_colours_are_for_terminals(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in on_a_terminal(folder, "stats", "--store", "memory://")


def test_no_color_is_honoured(folder: Path) -> None:
    assert "\x1b[" not in on_a_terminal(folder, "stats", "--store", "memory://", NO_COLOR="1")


def test_json_is_plain_on_a_terminal_too(folder: Path) -> None:
    assert on_a_terminal(folder, "workers", "--store", "memory://", "--json").split() == [
        "{",
        '"workers":',
        "[]",
        "}",
    ]


def test_long_work_shows_its_progress(folder: Path) -> None:
    shown = on_a_terminal(folder, "bench", "--jobs", "200", "--store", "memory://")
    assert "enqueue" in shown
    assert "200/200" in shown


def test_text_that_the_terminal_cannot_show_is_no_error(holdfast: Run) -> None:
    file = ("--store", "sqlite:///jobs.db")
    holdfast("enqueue", "shop:app", "explode", '["Grüße"]', *file)
    holdfast("worker", "shop:app", "--drain", *file)
    ended = holdfast("dlq", "list", *file, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ended.returncode == 0, ended.stderr
    assert "Gr\\xfc\\xdfe" in ended.stdout


def test_a_reader_that_goes_early_is_no_defect(start: Start) -> None:
    process = start("doctor", "--store", "memory://")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 1
    process.stdout = None

import re
import signal
from pathlib import Path

import pytest

from holdfast.cli.demo.story import Summary
from tests.cli.conftest import Start

pytestmark = pytest.mark.process
SHORT = ("demo", "--plain", "--jobs", "8", "--length", "0.8", "--lease", "1")


def numbers(output: str) -> dict[str, int]:
    found = re.findall(r"^([a-z][a-z -]+?)  +(\d+) *$", output, re.MULTILINE)
    return {name: int(value) for name, value in found}


@pytest.mark.timeout(90)
def test_the_demo_proves_its_point(start: Start) -> None:
    process = start(*SHORT)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert "\x1b" not in out
    shown = numbers(out)
    assert shown["jobs accepted"] == shown["completed"] == 8
    assert shown["lost"] == shown["completed twice"] == 0
    assert shown["take-overs"] >= 2
    assert shown["late writes refused"] >= 1
    assert shown["attempts"] >= shown["jobs accepted"] + shown["take-overs"]
    told = [
        r"worker (?P<dead>\w) killed \(SIGKILL\) in the middle of job (?P<first>\d+)",
        r"job (?P=first) taken over by worker (?!(?P=dead))\w",
        r"worker (?P<frozen>\w) frozen \(SIGSTOP\) in the middle of job (?P<second>\d+)",
        r"job (?P=second) taken over by worker (?!(?P=frozen))\w",
        r"worker (?P=frozen) woken \(SIGCONT\)",
        r"late write of worker (?P=frozen) for job (?P=second) refused",
    ]
    assert re.search(".*".join(told), out, re.DOTALL), out


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes through /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_demo_that_is_cut_short_leaves_nothing_behind(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder))
    process = start(*SHORT)
    assert process.stdout is not None
    for line in process.stdout:
        if "frozen" in line:
            break
    assert len(processes_in(folder)) == 2
    process.send_signal(number)
    process.communicate()
    assert process.returncode == code
    assert list(folder.glob("holdfast-demo-*")) == []
    assert processes_in(folder) == []


def processes_in(folder: Path) -> list[str]:
    """Processes whose working directory is, or was until it was deleted, below the folder."""
    return [each.parent.name for each in Path("/proc").glob("[0-9]*/cwd") if f"{folder}/" in _target(each)]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"completed": 7, "lost": 1},
        {"completed_twice": 1},
        {"take_overs": 1},
        {"late_writes_refused": 0},
        {"accepted": 0, "completed": 0},
    ],
)
def test_the_summary_is_not_content_with_less(wrong: dict[str, int]) -> None:
    good = {
        "accepted": 8,
        "completed": 8,
        "attempts": 10,
        "take_overs": 2,
        "late_writes_refused": 1,
        "lost": 0,
        "completed_twice": 0,
    }
    assert Summary(**good).proves_it
    assert not Summary(**{**good, **wrong}).proves_it

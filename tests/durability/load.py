"""The program of these tests, run in processes of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.durability.acknowledged import SETTING, read_all
from tests.durability.recording import Recorder
from tests.servers.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120


def environ_of(url: str, answers: Path, recorder: Recorder) -> dict[str, str]:
    """What makes a process of the program use that store, write its answers there, and be recorded."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
        **recorder.environ,
        SETTING: str(answers),
        "HOLDFAST_STORE": url,
        "PYTHONPATH": str(ROOT),
    }


def run_under_load(environ: dict[str, str], jobs: int, ending: signal.Signals) -> None:
    """A producer until it has added all, beside a worker that is ended when it has done half of that."""
    answers = Path(environ[SETTING])
    before = len(read_all(answers).done)
    program = [sys.executable, "-m", "tests.durability.program"]
    with subprocess.Popen([*program, "work"], env=environ) as worker:
        try:
            subprocess.run([*program, "produce", str(jobs)], env=environ, check=True, timeout=_PATIENCE)
            wait_until(lambda: len(read_all(answers).done) >= before + jobs // 2, "half of them are done")
        finally:
            worker.send_signal(ending)

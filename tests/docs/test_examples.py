import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import ROOT

EXAMPLES = ROOT / "examples"
SAID = {
    "script.py": [
        "one job for one key: True",
        "why does it not run? No live worker is known.",
        "result: 3",
        "attempt 1: success",
    ],
    "embedded.py": ["worker is ready", "mail to ann@example.org", "mail to bob@example.org", "welcomed 2"],
    "transactional.py": [
        "order 2 was not placed: the card was refused",
        "orders: [(1, 1)]",
        "bills: [(1,)]",
    ],
}


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAID.keys()


@pytest.mark.parametrize("name", SAID)
def test_the_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == sorted(SAID[name])
    assert not ended.stderr

"""A program that ends without closing anything."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from holdfast import Holdfast

app = Holdfast("{url}")

@app.task
def greet(name: str) -> str:
    return name

print(greet.enqueue_sync("you").state)
"""


@pytest.mark.process
@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
def test_a_script_that_enqueues_and_ends_says_nothing_else(tmp_path: Path, url: str) -> None:
    (tmp_path / "script.py").write_text(PROGRAM.format(url=url))
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("scheduled\n", "", 0)

import os
import subprocess
import sys
from pathlib import Path

from tests import conftest

PROGRAM = """
import asyncio

async def test_that_passes(tmp_path):
    await asyncio.sleep(0)

async def test_that_fails(tmp_path):
    await asyncio.sleep(0)
    assert not tmp_path
"""


def test_an_async_test_runs_and_can_fail(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(Path(conftest.__file__).read_text())
    (tmp_path / "test_async.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environ = os.environ | {"PYTHONPATH": str(Path(conftest.__file__).parents[1])}
    ended = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in ended.stdout

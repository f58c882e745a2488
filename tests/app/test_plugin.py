import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
import pytest
from holdfast import Holdfast

app = Holdfast("memory://")

@app.task
async def add(a: int) -> int:
    return a

@pytest.fixture
def holdfast_app():
    return app
"""

TESTS = """
import asyncio
from conftest import add

def test_blocking(holdfast_testing, holdfast_clock):
    add.using(delay=5).enqueue_sync(1)
    holdfast_clock.advance(5)
    holdfast_testing.drain_sync()
    assert holdfast_testing.jobs()[0].state == "success"

def test_async(holdfast_app, holdfast_testing):
    async def use():
        async with holdfast_app:
            job = await add.enqueue(2)
            await holdfast_testing.drain()
            assert await job.result() == 2
    asyncio.run(use())
    holdfast_testing.assert_enqueued(add, count=1)
"""


def run(folder: Path) -> str:
    # Blocked by its installed name, so that it is loaded once, whether or not it is installed here.
    plugins = ["-p", "no:holdfast", "-p", "holdfast.testing.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.process
def test_the_fixtures_give_each_test_an_empty_application(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    assert "2 passed" in run(tmp_path)


@pytest.mark.process
def test_a_missing_application_says_what_to_define(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(holdfast_testing): pass\n")
    assert "define a fixture `holdfast_app` in conftest.py" in run(tmp_path)

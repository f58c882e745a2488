"""A program that ends without closing anything."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.stores.sqlite import aside

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


async def test_the_file_is_let_go_even_where_no_thread_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    class Late(threading.Thread):
        start = refuse

    before = {*threading.enumerate()}
    async with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        await app.stats()
        monkeypatch.setattr(aside, "Thread", Late)
    left = {*threading.enumerate()} - before
    assert not [each.name for each in left if each.name == "holdfast-writer"]

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.acceptance import process_shop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(process_shop.__file__, tmp_path / "shop.py")
    return tmp_path


@pytest.mark.process
def test_a_handler_in_a_child_process_reaches_the_store_and_namespace_of_its_worker(folder: Path) -> None:
    elsewhere = ("--store", "sqlite:///other.db", "--namespace", "tenant")
    for command in (["enqueue", "shop:app", "enqueues"], ["enqueue", "shop:app", "commits"]):
        subprocess.run([sys.executable, "-m", "holdfast", *command, *elsewhere], check=True)
    worker = [sys.executable, "-m", "holdfast", "worker", "shop:app", "--drain", *elsewhere]
    subprocess.run(worker, check=True, timeout=50)
    with Holdfast("sqlite:///other.db", namespace="tenant") as app:
        ended = {job.task: (job.state, job.reason) for job in app.sync.find()}
    assert ended == dict.fromkeys(("enqueues", "commits", "add"), ("success", None))
    assert not (folder / "own.db").exists()


@pytest.mark.process
async def test_a_test_writes_nothing_into_the_real_store_by_way_of_a_child(folder: Path) -> None:
    async with process_shop.app.testing() as testing:
        await process_shop.enqueues.enqueue()
        await testing.drain()
        [job] = testing.jobs(process_shop.enqueues)
        assert job.state == "success"
    assert not (folder / "own.db").exists()

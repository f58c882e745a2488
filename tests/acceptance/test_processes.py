import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.telemetry.logs import JsonFormatter, LogfmtFormatter
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


@pytest.mark.process
@pytest.mark.usefixtures("folder")
async def test_what_a_child_process_logs_is_written_by_its_worker_line_by_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        async with process_shop.app.testing() as testing:
            await process_shop.logs.enqueue("two\nlines \x1b[31m")
            await testing.drain()
            [job] = testing.jobs(process_shop.logs)
    first, second = (each for each in caplog.records if each.name in {"holdfast.task", "shop"})
    line = json.loads(JsonFormatter().format(first))
    assert (line["event"], line["level"]) == ("two\nlines \x1b[31m", "info")
    assert (line["job"], line["run"], line["token"]) == (job.id, 1, job.token)
    assert (line["size"], line["odd"]) == (str(2**70), "nan")
    assert "\n" not in LogfmtFormatter().format(first) + LogfmtFormatter().format(second)
    assert (second.levelname, second.getMessage(), vars(second)["order"]) == ("ERROR", "went wrong", 42)
    assert "ValueError: two" in json.loads(JsonFormatter().format(second))["traceback"]

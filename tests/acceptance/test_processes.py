import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast, JobFailed, Task
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
@pytest.mark.parametrize("task", [process_shop.enqueues, process_shop.opens_and_enqueues])
async def test_a_child_whose_worker_has_its_store_in_memory_is_refused_it_and_told_what_to_do(
    task: Task[[], str], folder: Path
) -> None:
    async with process_shop.app.configured(store="sqlite:///own.db").testing() as testing:
        await task.enqueue()
        await testing.drain()
        [job] = testing.jobs(task)
        assert testing.jobs(process_shop.add) == []
    assert job.state == "dlq"
    assert str(job.reason).startswith("ConfigurationError: store: this handler runs in a process of its own")
    assert "use ctx.enqueue(task.call(...)), or a store that processes share" in str(job.reason)
    assert not (folder / "own.db").exists()


@pytest.mark.process
async def test_an_async_handler_in_a_child_is_told_how_to_enqueue_there(folder: Path) -> None:
    app = process_shop.app.configured(store=f"sqlite:///{folder}/jobs.db")
    async with app, app.worker():
        job = await process_shop.enqueues_on_its_loop.enqueue()
        with pytest.raises(JobFailed, match=r"NotOpen.*ctx\.enqueue\(task\.call.*`async with app:`"):
            await job.result(timeout=30)
        opened = await process_shop.opens_and_enqueues.enqueue()
        added = await app.get(await opened.result(timeout=30))
        assert added is not None
        assert await added.result(timeout=30) == 3


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

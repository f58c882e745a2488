"""The command line over several partitions, and what it says when one of them is away."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast, Never
from holdfast.cli.main import cli
from holdfast.model.partition import as_url, layout
from tests.partitioned.conftest import NAMES
from tests.servers.ports import HOST, free_port

APPLICATION = """
from holdfast import Event, Holdfast, Never, every

app = Holdfast()

@app.schedule(every(hours=1), name="hourly")
@app.task(queue="in-b")
def add(a: int = 1, b: int = 2) -> int:
    return a + b

@app.task(retry=Never(), queue="in-c")
def explode() -> None:
    raise ValueError("no")
"""

Use = Callable[..., None]


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Names the stores of the commands that follow: three SQLite files, unless others are given."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    (tmp_path / "shop.py").write_text(APPLICATION)

    def use(*, draining: tuple[str, ...] = (), **stores: str) -> None:
        urls = {name: stores.get(name, f"sqlite:///{tmp_path}/{name}.db") for name in NAMES}
        rules = [(f"in-{name}", name) for name in NAMES]
        monkeypatch.setenv("HOLDFAST_STORE", as_url(layout(urls, queues=rules, draining=draining)))

    use()
    return use


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def asked(*arguments: str) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def prepare() -> list[str]:
    """A done job in a, one that waits in b, a dead one in c; their ids."""
    app = Holdfast()

    @app.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task(retry=Never())
    def explode() -> None:
        raise ValueError("no")

    async def work() -> list[str]:
        async with app:
            done = await add.using(queue="in-a").enqueue(1)
            waiting = await add.using(queue="in-b", delay=3600).enqueue(1)
            dead = await explode.using(queue="in-c").enqueue()
            await app.worker(queues=["in-a", "in-b", "in-c"]).run(until_idle=True)
            return [done.id, waiting.id, dead.id]

    return asyncio.run(work())


def test_lists_and_counts_are_of_all_partitions(use: Use) -> None:
    ids = prepare()
    assert [job["id"] for job in asked("jobs", "list")["jobs"]] == sorted(ids, reverse=True)
    first = asked("jobs", "list", "--limit", "2")
    second = asked("jobs", "list", "--limit", "2", "--cursor", first["cursor"])
    assert [job["id"] for job in first["jobs"] + second["jobs"]] == sorted(ids, reverse=True)
    stats = asked("stats")
    assert (stats["completed"], stats["scheduled"], stats["failed"]) == (1, 1, 1)
    assert [queue["name"] for queue in asked("queues", "list")["queues"]] == ["in-a", "in-b", "in-c"]
    assert [job["id"] for job in asked("dlq", "list")["jobs"]] == [ids[2]]
    found = {each["name"]: each for each in asked("partitions", "list")["partitions"]}
    assert [(found[name]["live"], found[name]["dead"], found[name]["finished"]) for name in NAMES] == [
        (0, 0, 1),
        (1, 0, 0),
        (0, 1, 0),
    ]
    assert asked("partitions", "of", "in-b")["queues"] == {"in-b": "b"}


def test_one_job_is_shown_with_its_partition_and_steered_there(use: Use) -> None:
    _, waiting, dead = prepare()
    assert asked("jobs", "show", waiting[:30])["partition"] == "b"
    assert "not due before" in asked("why", waiting)["sentence"]
    assert asked("jobs", "cancel", waiting)["cancelled"][0]["answer"] == "cancelled"
    assert asked("dlq", "replay", "--all") == {"replayed": 1}
    assert asked("jobs", "show", dead)["job"]["state"] == "scheduled"


def test_a_queue_is_paused_in_every_partition(use: Use) -> None:
    prepare()
    assert invoke("queues", "pause", "in-a").exit_code == 0
    assert [queue["paused"] for queue in asked("queues", "list")["queues"]] == [True, False, False]


def test_schedules_and_events_of_all_partitions_are_listed(use: Use) -> None:
    prepare()
    for topic in ("orders", "users", "stock", "mail"):
        assert invoke("events", "emit", topic, "told", "1").exit_code == 0
    assert (
        len(asked("events", "list")["events"]) == len(asked("events", "list", "--last", "9")["events"]) == 4
    )
    page = asked("events", "list", "--limit", "3")
    assert len(asked("events", "list", "--after", str(page["after"]))["events"]) == 1
    made = invoke("schedules", "add", "shop:app", "nightly", "add", "{}", "--cron", "0 3 * * *")
    assert made.exit_code == 0, made.output
    [nightly] = asked("schedules", "list")["schedules"]
    assert (nightly["name"], nightly["partition"]) == ("nightly", "b")
    assert invoke("schedules", "pause", "nightly").exit_code == 0
    assert invoke("schedules", "remove", "nightly").exit_code == 0
    assert asked("schedules", "list")["schedules"] == []


def test_a_draining_partition_is_shown_as_such(use: Use) -> None:
    prepare()
    use(draining=("c",))
    shown = invoke("partitions", "list")
    assert [line.split()[1] for line in shown.stdout.splitlines()[1:]] == ["open,", "open", "draining"]


def test_what_the_others_have_is_shown_when_a_partition_is_away_and_the_rest_is_told(use: Use) -> None:
    ids = prepare()
    use(b=f"redis://:s3cret@{HOST}:{free_port()}/0")
    for command in (["stats"], ["jobs", "list"], ["workers"], ["queues", "list"], ["dlq", "list"]):
        result = invoke(*command, "--json")
        assert result.exit_code == 0, result.output
        assert result.stderr.startswith("holdfast: partition b: "), result.stderr
        assert "what it has is left out" in result.stderr
        assert "s3cret" not in result.output
    assert {job["id"] for job in json.loads(invoke("jobs", "list", "--json").stdout)["jobs"]} == {
        ids[0],
        ids[2],
    }
    shown = invoke("jobs", "show", ids[0], "--json")
    assert shown.exit_code == 0, shown.output
    written = invoke("enqueue", "shop:app", "add", "[1]")
    assert written.exit_code == 1
    assert written.stderr.startswith("holdfast: partition b: ")
    assert invoke("enqueue", "shop:app", "add", "[1]", "--queue", "in-a").exit_code == 0
    away = {
        each["name"]: each for each in json.loads(invoke("partitions", "list", "--json").stdout)["partitions"]
    }
    assert away["b"]["error"]
    assert away["a"]["error"] is None


def test_doctor_looks_at_each_partition_and_names_the_one_that_is_away(use: Use) -> None:
    prepare()
    well = invoke("doctor", "--json")
    assert well.exit_code == 0, well.output
    store = json.loads(well.stdout)["store"]
    assert all(store[f"{name}.engine"] == "sqlite" for name in NAMES), store
    use(b=f"redis://:s3cret@{HOST}:{free_port()}/0")
    ill = invoke("doctor", "--json")
    assert ill.exit_code == 1
    assert any("partition b" in problem for problem in json.loads(ill.stdout)["problems"])
    assert "s3cret" not in ill.output


def test_migrate_makes_the_tables_of_every_partition(use: Use, postgres_databases: dict[str, str]) -> None:
    use(**postgres_databases)
    missing = invoke("stats")
    assert missing.exit_code == 2
    assert "partition " in missing.stderr
    applied = asked("migrate")["applied"]
    assert {step.partition(":")[0] for step in applied} == set(NAMES)
    assert asked("migrate")["applied"] == []
    assert invoke("migrate", "--print-sql").stdout.count("-- partition ") == 3
    assert invoke("migrate", "--print-roles").stdout.count("-- partition ") == 3
    prepare()
    assert asked("stats")["completed"] == 1


@pytest.mark.process
def test_a_scheduler_leads_in_every_partition_and_stores_what_is_declared(use: Use, tmp_path: Path) -> None:
    prepare()
    process = subprocess.Popen([sys.executable, "-m", "holdfast", "scheduler", "shop:app"], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 20
        while None in (leaders := asked("leader")["leaders"]).values():
            assert time.monotonic() < deadline, leaders
        assert set(leaders) == set(NAMES)
        assert [each["name"] for each in asked("schedules", "list")["schedules"]] == ["hourly"]
    finally:
        process.terminate()
        assert process.wait(20) == 0

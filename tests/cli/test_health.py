"""`holdfast worker` tells whether it is well, alone or for its processes, and `holdfast health` asks it."""

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.stores import open_store
from tests.cli.conftest import Run, Start, read_until
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.process
PATIENCE = 20.0


def port_of(process: subprocess.Popen[str]) -> int:
    found = re.search(r"port=(\d+)", read_until(process, 'event="health is told"'))
    assert found is not None
    return int(found[1])


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def ask_until(port: int, path: str, status: int, word: str = "") -> str:
    answers: list[tuple[int, str]] = []

    def is_so() -> bool:
        answers.append(ask(port, path))
        return answers[-1][0] == status and word in answers[-1][1]

    wait_until(is_so, f"{path} answers {status} {word}")
    return answers[-1][1]


def samples(text: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels.get("process", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_worker_tells_health_and_metrics_on_its_port(start: Start, holdfast: Run) -> None:
    store = "sqlite:///jobs.db"
    holdfast("enqueue", "shop:app", "add", '{"a": 1}', "--store", store)
    process = start("worker", "shop:app", "--store", store, "--health-port", "0")
    port = port_of(process)
    ask_until(port, "/health/ready", 200)
    text = ask_until(port, "/metrics", 200, 'holdfast_attempts_total{task="add",outcome="success"} 1')
    assert samples(text)["holdfast_store_up", ""] == 1
    assert holdfast("health", "--port", str(port)).stdout == "ok\n"
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    ended = holdfast("health", "--port", str(port))
    assert ended.returncode == 1
    assert "no answer" in ended.stdout


def test_a_draining_worker_says_so(start: Start, holdfast: Run) -> None:
    store = "sqlite:///jobs.db"
    holdfast("enqueue", "shop:app", "pause", '{"seconds": 60}', "--store", store)
    process = start(
        "worker", "shop:app", "--store", store, "--health-port", "0", "--health-file", "health.json"
    )
    port = port_of(process)
    read_until(process, "pause begins")
    assert json.loads(Path("health.json").read_text())["live"]
    process.terminate()
    ask_until(port, "/health/ready", 503, "draining")
    assert ask(port, "/health/live")[0] == 200
    assert holdfast("health", "--port", str(port)).stdout == "draining\n"
    assert holdfast("health", "--port", str(port), "--live").returncode == 0
    process.terminate()
    process.communicate()
    assert not Path("health.json").exists()


def test_the_supervisor_answers_for_all_its_processes(start: Start) -> None:
    process = start(
        "worker", "shop:app", "--store", "sqlite:///jobs.db", "--processes", "2", "--health-port", "0"
    )
    port = port_of(process)
    pids = [
        int(pid)
        for pid in re.findall(r"pid=(\d+)", read_until(process, "pid=") + read_until(process, "pid="))
    ]
    ask_until(port, "/health/ready", 200)
    told = samples(ask(port, "/metrics")[1])
    assert [told["holdfast_workers", each] for each in "01"] == [1, 1]
    assert told["holdfast_store_up", "0"] == 1
    os.kill(pids[1], signal.SIGSTOP)
    try:
        body = ask_until(port, "/health/live", 503)
        assert re.search(r"process [01]: no answer within", body)
        metrics = samples(ask(port, "/metrics")[1])
        assert sum(name == "holdfast_workers" for name, _ in metrics) == 1
    finally:
        os.kill(pids[1], signal.SIGCONT)
    ask_until(port, "/health/ready", 200)
    os.kill(pids[0], signal.SIGKILL)
    ask_until(port, "/health/ready", 503, "starting")
    assert ask(port, "/health/live")[0] == 200, "it is being started again"
    ask_until(port, "/health/ready", 200)
    process.terminate()
    process.communicate()
    assert process.returncode == 0


def test_children_do_not_take_the_port_of_the_settings(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HEALTH_PORT", "0")
    monkeypatch.setenv("HOLDFAST_HEALTH_FILE", "health.json")
    process = start("worker", "shop:app", "--store", "sqlite:///jobs.db", "--processes", "2")
    port = port_of(process)
    ask_until(port, "/health/ready", 200)
    wait_until(lambda: json.loads(Path("health.json").read_text())["ready"], "the file says ready")
    process.terminate()
    _, err = process.communicate()
    assert 'event="health is told"' not in err


def test_a_file_that_is_old_or_strange_says_nothing(holdfast: Run, folder: Path) -> None:
    file = folder / "health.json"
    assert holdfast("health", "--file", str(file)).returncode == 1
    file.write_text('{"live": true, "ready": true, "reasons": []}')
    assert holdfast("health", "--file", str(file)).stdout == "ok\n"
    os.utime(file, (1, 1))
    ended = holdfast("health", "--file", str(file))
    assert (ended.returncode, "was last written" in ended.stdout) == (1, True)
    file.write_text("no")
    assert "no health file" in holdfast("health", "--file", str(file)).stdout
    assert holdfast("health").returncode == 2


def test_a_port_that_cannot_be_had_is_wrong_use(holdfast: Run) -> None:
    ended = holdfast("worker", "shop:app", "--store", "memory://", "--health-port", "99999", "--drain")
    assert ended.returncode == 2
    assert "health_port: 99999 is not between 0 and 65535" in ended.stderr
    ended = holdfast(
        "worker",
        "shop:app",
        "--store",
        "memory://",
        "--health-port",
        "1",
        "--health-host",
        "192.0.2.1",
        "--drain",
    )
    assert ended.returncode == 2
    assert "health_port: cannot listen on 192.0.2.1:1" in ended.stderr


def test_the_token_is_shown_nowhere(holdfast: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HEALTH_TOKEN", "correct-horse")
    for arguments in (("doctor", "--store", "memory://"), ("doctor", "--json", "--store", "memory://")):
        ended = holdfast(*arguments)
        assert "correct-horse" not in ended.stdout + ended.stderr
        assert "***" in ended.stdout


def test_metrics_are_told_though_the_store_is_away_from_the_beginning(start: Start) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        store = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
        process = start("worker", "shop:app", "--store", store, "--health-port", "0")
        port = port_of(process)
        status, text = ask(port, "/metrics")
        assert status == 200
        assert samples(text)["holdfast_store_up", ""] == 0
        assert ask(port, "/health/live")[0] == 200


def check_outages(
    start: Start,
    holdfast: Run,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    outages: Sequence[tuple[Callable[[], None], Callable[[], None]]],
) -> None:
    """A worker is ready, red while its server is away, never to be restarted, and ready and at work after."""
    monkeypatch.setenv("HOLDFAST_HEALTH_LIMIT_SECONDS", "1")
    monkeypatch.setenv("HOLDFAST_POLL_SECONDS", "0.5")
    process = start("worker", "shop:app", "--store", store, "--health-port", "0")
    port = port_of(process)
    ask_until(port, "/health/ready", 200)
    for number, (leave, come_back) in enumerate(outages, start=1):
        leave()
        red, green = ask_until(port, "/health/ready", 503), ask_until(port, "/health/live", 200)
        for body, word in ((red, "red"), (green, "ok")):
            told = json.loads(body)
            assert told["status"] == word
            [reason] = told["reasons"]
            assert re.fullmatch(r"the store has not answered for \d+ s", reason)
        assert samples(ask(port, "/metrics")[1])["holdfast_store_up", ""] == 0
        asked = holdfast("health", "--port", str(port))
        assert asked.returncode == 1
        assert "the store has not answered for" in asked.stdout
        come_back()
        assert json.loads(ask_until(port, "/health/ready", 200)) == {"status": "ok", "reasons": []}
        holdfast("enqueue", "shop:app", "add", '{"a": 1}', "--store", store)
        ask_until(
            port, "/metrics", 200, f'holdfast_attempts_total{{task="add",outcome="success"}} {number}\n'
        )
    process.terminate()
    process.communicate()
    assert process.returncode == 0


@pytest.mark.timeout(120)
def test_an_outage_of_postgresql_is_told_until_it_is_over(
    start: Start, holdfast: Run, monkeypatch: pytest.MonkeyPatch, private_postgres: Postgres
) -> None:
    async def migrate() -> None:
        store = open_store(private_postgres.url)
        assert store.migrations is not None
        await store.migrations.apply()
        await store.close()

    asyncio.run(migrate())
    crashed = (lambda: private_postgres.stop("immediate"), private_postgres.start)
    check_outages(start, holdfast, monkeypatch, private_postgres.url, [crashed])


@pytest.mark.timeout(120)
def test_an_outage_of_redis_is_told_until_it_is_over(
    start: Start, holdfast: Run, monkeypatch: pytest.MonkeyPatch, private_redis: Redis
) -> None:
    """What comes back is empty: nothing is kept on disk. A frozen one takes connections, and is mute."""
    gone = (private_redis.kill, private_redis.start)
    frozen = (private_redis.freeze, private_redis.thaw)
    check_outages(start, holdfast, monkeypatch, f"{private_redis.url}?timeout=1", [gone, frozen])

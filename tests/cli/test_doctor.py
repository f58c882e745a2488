"""What `holdfast doctor` tells of the way to the store: how fast it answers, and how often it did not."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from holdfast.model.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import ResilientStore
from tests.engine.faulty import Faults, FaultyStore
from tests.servers.ports import free_port

DOWN = StoreUnavailable("postgresql://ann:hunter2@db/jobs: connection refused")


class Moody(FaultyStore):
    """A store whose facts cannot be had while it is away, nor the first few times."""

    def __init__(self, faults: Faults, failures: float = 0) -> None:
        super().__init__(MemoryStore(), faults)
        self.failures = failures

    async def facts(self) -> dict[str, str]:
        if self.failures:
            self.failures -= 1
            raise DOWN
        return await super().facts()


@pytest.fixture
def faults() -> Faults:
    return Faults()


def examine(monkeypatch: pytest.MonkeyPatch, store: Moody) -> tuple[int, Any]:
    wrapped = ResilientStore(store)
    monkeypatch.setattr("holdfast.cli.doctor.open_store", lambda url, **_: wrapped)
    ended = CliRunner().invoke(cli, ["doctor", "--store", "memory://", "--json"])
    assert "hunter2" not in ended.output
    return ended.exit_code, json.loads(ended.stdout)


@pytest.mark.usefixtures("folder")
def test_it_tells_how_fast_the_store_answers_and_that_the_circuit_is_closed(
    monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    code, found = examine(monkeypatch, Moody(faults))
    assert code == 0
    assert re.fullmatch(r"\d+\.\d to \d+\.\d ms \(5 calls\)", found["store"]["answers in"])
    assert found["store"]["circuit"] == "closed"
    assert (found["warnings"], found["problems"]) == ([], [])
    assert faults.count("queues") == 5


@pytest.mark.usefixtures("folder")
def test_it_warns_of_faults_that_were_ridden_out(monkeypatch: pytest.MonkeyPatch, faults: Faults) -> None:
    faults.plan("connect", before=DOWN, times=2)
    faults.plan("queues", before=DOWN)
    code, found = examine(monkeypatch, Moody(faults, failures=1))
    assert code == 0
    assert found["store"]["circuit"] == "closed"
    assert found["store"]["engine"] == "memory"
    [warning] = found["warnings"]
    assert warning.startswith("3 tries did not reach the store, and worked when made again; the last fault: ")
    assert warning.endswith("postgresql://ann:***@db/jobs: connection refused")


@pytest.mark.usefixtures("folder")
def test_it_fails_when_the_store_is_away_for_long_and_tells_how_often_it_tried(
    monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    faults.down = DOWN
    code, found = examine(monkeypatch, Moody(faults, failures=float("inf")))
    assert code == 1
    assert found["problems"] == ["postgresql://ann:***@db/jobs: connection refused"]
    circuit = found["store"]["circuit"]
    told = re.fullmatch(r"open; (\d+) tries failed within [23]\.\d s, the last: (.+)", circuit)
    assert told is not None, circuit
    assert int(told[1]) == faults.count("connect") > 5
    assert told[2] == "postgresql://ann:***@db/jobs: connection refused"
    assert "answers in" not in found["store"]


@pytest.mark.usefixtures("folder")
def test_it_does_so_for_a_server_that_is_not_there() -> None:
    url = f"postgresql://ann:hunter2@127.0.0.1:{free_port()}/jobs"
    ended = CliRunner().invoke(cli, ["doctor", "--store", url])
    assert ended.exit_code == 1
    assert re.search(r"circuit +open; \d+ tries failed within", ended.stdout), ended.stdout
    assert "hunter2" not in ended.output


@pytest.mark.usefixtures("folder")
def test_a_store_on_this_machine_has_no_circuit() -> None:
    ended = CliRunner().invoke(cli, ["doctor", "--store", "memory://", "--json"])
    store = json.loads(ended.stdout)["store"]
    assert "circuit" not in store
    assert "answers in" in store

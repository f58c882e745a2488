"""What a worker answers on its port, to whom, and what it writes into its file."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import ConfigurationError, Holdfast
from holdfast.model.health import Health
from holdfast.telemetry import chorus, exposition
from holdfast.telemetry.endpoint import AT_ONCE, Endpoint, HealthFile
from holdfast.telemetry.metrics import Metrics
from tests.servers.waiting import wait_until

WELL = Health(True, True)
DRAINING = Health(True, False, ("draining",))
TOKEN = "correct horse"


class Told:
    """What the endpoint is told to tell."""

    health = WELL

    def __call__(self) -> Health:
        return self.health


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def endpoint(told: Told) -> Iterator[Endpoint]:
    with Endpoint("127.0.0.1", 0, told, lambda: "holdfast_workers 1\n") as found:
        yield found


def ask(
    endpoint: Endpoint, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer
    finally:
        connection.close()


def test_health_is_told_with_its_reason(endpoint: Endpoint, told: Told) -> None:
    assert ask(endpoint, "/health/ready")[:2] == (200, '{"status": "ok", "reasons": []}')
    told.health = DRAINING
    assert ask(endpoint, "/health/live")[0] == 200
    status, body, answer = ask(endpoint, "/health/ready?verbose")
    assert (status, json.loads(body)) == (503, {"status": "red", "reasons": ["draining"]})
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Python" not in answer.headers["Server"]


def test_metrics_stand_beside_it(endpoint: Endpoint) -> None:
    status, body, answer = ask(endpoint, "/metrics")
    assert (status, body) == (200, "holdfast_workers 1\n")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert ask(endpoint, "/metrics", "HEAD")[1] == ""
    assert ask(endpoint, "/elsewhere")[0] == 404
    assert ask(endpoint, "/metrics", "POST")[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]:80"])
def test_a_page_that_made_its_name_mean_this_machine_gets_no_metrics(endpoint: Endpoint, host: str) -> None:
    assert ask(endpoint, "/metrics", Host=host)[0] == 401
    assert ask(endpoint, "/health/live", Host=host)[0] == 200


@pytest.mark.parametrize("host", ["localhost:9100", "127.0.0.1", "[::1]:9100", "LOCALHOST"])
def test_names_of_this_machine_do(endpoint: Endpoint, host: str) -> None:
    assert ask(endpoint, "/metrics", Host=host)[0] == 200


def test_metrics_with_a_token_are_for_who_knows_it(told: Told) -> None:
    with Endpoint("127.0.0.1", 0, told, str, token=TOKEN) as endpoint:
        assert ask(endpoint, "/metrics", Host="pod.example", Authorization=f"Bearer {TOKEN}")[0] == 200
        for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \xe9"):
            status, body, answer = ask(endpoint, "/metrics", Authorization=wrong)
            assert (status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert TOKEN not in body
        assert ask(endpoint, "/health/ready")[0] == 200, "a probe knows no token"


def test_other_machines_get_no_metrics_without_a_token(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    with Endpoint("0.0.0.0", 0, told, str) as endpoint:
        assert ask(endpoint, "/health/ready")[0] == 200
        assert ask(endpoint, "/metrics")[0] == 401
    assert "health_token" in caplog.text


def test_a_port_that_is_taken_is_named(endpoint: Endpoint, told: Told) -> None:
    with pytest.raises(ConfigurationError, match=f"health_port: cannot listen on 127.0.0.1:{endpoint.port}"):
        Endpoint("127.0.0.1", endpoint.port, told, str)


def test_who_says_nothing_or_nonsense_keeps_nobody_from_asking(endpoint: Endpoint) -> None:
    idle = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(AT_ONCE - 1)]
    idle[0].sendall(b"\x00\xff\r\n\r\n")
    idle[0].recv(1000)
    assert ask(endpoint, "/health/live")[0] == 200
    for each in idle:
        each.close()


def test_who_asks_too_slowly_is_hung_up_on(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.telemetry.endpoint.PATIENCE", 0.3)
    slow = [socket.create_connection(("127.0.0.1", endpoint.port)) for _ in range(AT_ONCE)]

    def is_hung_up(connection: socket.socket) -> bool:
        try:
            connection.sendall(b"G")
            return connection.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    def is_told() -> bool:
        try:
            return ask(endpoint, "/health/live")[0] == 200
        except (ConnectionError, http.client.HTTPException):
            return False

    for each in slow:
        wait_until(partial(is_hung_up, each), "the slow one is hung up on")
        each.close()
    wait_until(is_told, "others are answered")


def test_a_failing_question_ends_nothing(told: Told) -> None:
    asked = threading.Event()

    def broken() -> str:
        asked.set()
        raise RuntimeError("no")

    with Endpoint("127.0.0.1", 0, told, broken) as endpoint:
        with pytest.raises(http.client.RemoteDisconnected):
            ask(endpoint, "/metrics")
        assert asked.is_set()
        assert ask(endpoint, "/health/live")[0] == 200


def test_the_file_says_the_same_and_is_gone_in_the_end(tmp_path: Path, told: Told) -> None:
    path = tmp_path / "health.json"
    with HealthFile(path, told, every=0.01):
        assert json.loads(path.read_text()) == {"live": True, "ready": True, "reasons": []}
        told.health = DRAINING
        wait_until(lambda: not json.loads(path.read_text())["ready"], "the file says that it drains")
        assert json.loads(path.read_text())["reasons"] == ["draining"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, told: Told) -> None:
    with (
        pytest.raises(ConfigurationError, match="health_file: cannot write"),
        HealthFile(tmp_path / "no/x", told),
    ):
        pass


def test_metrics_of_several_processes_are_told_apart() -> None:
    one, two = Metrics(Holdfast("memory://")), Metrics(Holdfast("memory://"))
    for metrics, count in ((one, 1), (two, 2)):
        for _ in range(count):
            metrics._app.notices.tell("lock_acquired", lock="a", token=1, waited=0.5)
    text = exposition.render(
        chorus.merged({"0": chorus.encode(one.families()), "1": chorus.encode(two.families())})
    )
    samples = {
        (sample.name, sample.labels.get("process")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }
    assert samples["holdfast_lock_grants_total", "0"] == 1
    assert samples["holdfast_lock_grants_total", "1"] == 2
    assert samples["holdfast_lock_wait_seconds_sum", "1"] == 1
    assert text.count("# TYPE holdfast_lock_grants_total") == 1

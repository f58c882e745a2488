"""What a client is told, and what it keeps to itself."""

import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.kafka import KafkaRelay, KafkaSource
from holdfast.model.errors import ConfigurationError, DeliveryFailed
from tests.kafka.cluster import Cluster
from tests.kafka.support import config, told

SECRET = "hunter2-and-more"  # a password, to be looked for


async def enqueue(jobs: object) -> None:
    raise AssertionError(jobs)


def source(given: str | Mapping[str, Any]) -> KafkaSource:
    return KafkaSource(given, ["orders"], "billing", enqueue=enqueue, to_job=lambda event: None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.idempotence", False),
        ("acks", 1),
        ("request.required.acks", 0),
        ("enable.gapless.guarantee", "false"),
        ("delivery.timeout.ms", 1_000),
        ("transactional.id", "x"),
    ],
)
def test_a_relay_refuses_what_would_break_order_or_durability(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name}: ") as caught:
        KafkaRelay({"bootstrap.servers": "localhost", name: value})
    assert caught.value.setting == name


def test_saying_what_is_so_anyway_is_no_mistake() -> None:
    KafkaRelay({"bootstrap.servers": "localhost", "acks": -1, "enable.idempotence": "true"})


@pytest.mark.parametrize(("name", "value"), [("enable.auto.commit", True), ("group.id", "other")])
def test_a_source_refuses_what_would_lose_messages(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name}: "):
        source({"bootstrap.servers": "localhost", name: value})


def test_missing_brokers_and_impossible_numbers_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^bootstrap\.servers: "):
        KafkaRelay({})
    with pytest.raises(ConfigurationError, match=r"^timeout: "):
        KafkaRelay("localhost", timeout=0)
    with pytest.raises(ConfigurationError, match=r"^batch: "):
        KafkaSource("localhost", ["orders"], "g", enqueue=enqueue, to_job=lambda event: None, batch=0)
    with pytest.raises(ConfigurationError, match=r"^topics: "):
        KafkaSource("localhost", [], "g", enqueue=enqueue, to_job=lambda event: None)
    with pytest.raises(ConfigurationError, match=r"^group: "):
        KafkaSource("localhost", ["orders"], "", enqueue=enqueue, to_job=lambda event: None)


async def test_a_setting_that_the_library_refuses_is_told_without_secrets() -> None:
    given = {"bootstrap.servers": "localhost", "sasl.password": SECRET, "debug": SECRET}
    with pytest.raises(ConfigurationError, match="debug") as caught:
        await KafkaRelay(given).handle([told()])
    assert SECRET not in _all_of(caught.value)
    with pytest.raises(ConfigurationError, match="debug") as caught:
        await source(given).run()
    assert SECRET not in _all_of(caught.value)


async def test_no_secret_in_what_is_shown_logged_or_raised(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    given = config(cluster, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", debug="all") | {
        "sasl.username": "ann",
        "sasl.password": SECRET,
    }
    relay = KafkaRelay(given, timeout=1)
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(DeliveryFailed) as caught:
            await relay.handle([told()])
        await relay.close()
    assert caplog.records, "the library's own log lines came through"
    shown = [
        repr(relay),
        repr(relay._config),
        repr(source(given)),
        _all_of(caught.value),
        caplog.text,
        *capfd.readouterr(),
    ]
    assert not [text for text in shown if SECRET in text]
    assert cluster.servers in repr(relay)


def test_without_the_driver_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['confluent_kafka'] = None\nimport holdfast.kafka"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ConfigurationError: kafka: " in ended.stderr
    assert "pip install 'holdfast[kafka]'" in ended.stderr


def _all_of(error: BaseException | None) -> str:
    """The error with all that stands behind it."""
    return "" if error is None else repr(error) + str(error) + _all_of(error.__cause__ or error.__context__)

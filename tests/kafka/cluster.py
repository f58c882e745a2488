"""A Kafka cluster of librdkafka's own, in this process, that can be told to fail.

The calls of its mock are not in confluent-kafka's face, but in the library that its wheel carries. It speaks
the protocol on loopback ports, so that clients of other processes can use it too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import confluent_kafka.cimpl

PRODUCE = 0
FETCH = 1
OFFSET_COMMIT = 8


def _library() -> ctypes.CDLL:
    """The very library that confluent-kafka is linked with: a second copy would not know its objects."""
    beside = Path(confluent_kafka.cimpl.__file__).parents[1] / "confluent_kafka.libs"
    bundled = sorted(beside.glob("librdkafka-*.so*"))
    library = ctypes.CDLL(str(bundled[0]) if bundled else "librdkafka.so.1")
    pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    calls: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set_log_cb": (None, [pointer, pointer]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_push_request_errors_array": (
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, pointer],
        ),
        "rd_kafka_mock_clear_request_errors": (None, [pointer, ctypes.c_int16]),
        "rd_kafka_mock_broker_set_down": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (number, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_rtt": (number, [pointer, ctypes.c_int32, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in calls.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Cluster:
    """Mock brokers, numbered from 1."""

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._kafka = _library()
        said = ctypes.create_string_buffer(512)
        conf = self._kafka.rd_kafka_conf_new()
        self._kafka.rd_kafka_conf_set_log_cb(conf, None)
        self._handle = self._kafka.rd_kafka_new(0, conf, said, len(said))
        assert self._handle, said.value
        self._mock = self._kafka.rd_kafka_mock_cluster_new(self._handle, brokers)
        assert self._mock
        self._kafka.rd_kafka_mock_group_initial_rebalance_delay_ms(self._mock, 0)
        self.servers: str = self._kafka.rd_kafka_mock_cluster_bootstraps(self._mock).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kafka.rd_kafka_mock_cluster_destroy(self._mock)
        self._kafka.rd_kafka_destroy(self._handle)

    def topic(self, name: str, partitions: int) -> None:
        assert not self._kafka.rd_kafka_mock_topic_create(self._mock, name.encode(), partitions, 1)

    def fail(self, request: int, errors: Sequence[int]) -> None:
        """The next requests of that kind are answered with these errors, in order."""
        array = (ctypes.c_int * len(errors))(*errors)
        self._kafka.rd_kafka_mock_push_request_errors_array(self._mock, request, len(errors), array)

    def forgive(self, request: int) -> None:
        """Forgets the errors that nobody got yet."""
        self._kafka.rd_kafka_mock_clear_request_errors(self._mock, request)

    def down(self) -> None:
        """Closes all connections and takes no new ones."""
        for broker in range(1, self._brokers + 1):
            assert not self._kafka.rd_kafka_mock_broker_set_down(self._mock, broker)

    def up(self) -> None:
        for broker in range(1, self._brokers + 1):
            assert not self._kafka.rd_kafka_mock_broker_set_up(self._mock, broker)

    def slow(self, milliseconds: int) -> None:
        """Every answer takes as long as that."""
        for broker in range(1, self._brokers + 1):
            assert not self._kafka.rd_kafka_mock_broker_set_rtt(self._mock, broker, milliseconds)

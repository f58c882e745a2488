"""Who a worker is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.engine import surroundings
from holdfast.model.records import WorkerRecord

RELEASE = "0.1"


def process_name() -> str:
    """This process, as operators are told of it: its host and its number there."""
    return f"{_host()}-{surroundings.process_id()}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", surroundings.host_name())[:64] or "host"


def worker_record(queues: tuple[str, ...], tasks: Iterable[str], concurrency: int) -> WorkerRecord:
    """A new identity: host, process and a random part, so that no two workers ever share one."""
    return WorkerRecord(
        id=f"{process_name()}-{surroundings.token_hex(4)}",
        host=_host(),
        pid=surroundings.process_id(),
        queues=queues,
        tasks=tuple(sorted(tasks)),
        concurrency=concurrency,
        version=RELEASE,
    )

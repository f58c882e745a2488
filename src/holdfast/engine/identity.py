"""Who a worker is."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable

from holdfast.model.records import WorkerRecord

RELEASE = "0.1"


def process_name() -> str:
    """This process, as operators are told of it: its host and its number there."""
    return f"{_host()}-{os.getpid()}"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64] or "host"


def worker_record(queues: tuple[str, ...], tasks: Iterable[str], concurrency: int) -> WorkerRecord:
    """A new identity: host, process and a random part, so that no two workers ever share one."""
    return WorkerRecord(
        id=f"{process_name()}-{secrets.token_hex(4)}",
        host=_host(),
        pid=os.getpid(),
        queues=queues,
        tasks=tuple(sorted(tasks)),
        concurrency=concurrency,
        version=RELEASE,
    )

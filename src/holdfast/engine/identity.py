"""Who a worker is."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable

from holdfast.model.records import WorkerRecord

RELEASE = "0.1"


def worker_record(queues: tuple[str, ...], tasks: Iterable[str], concurrency: int) -> WorkerRecord:
    """A new identity: host, process and a random part, so that no two workers ever share one."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64] or "host"
    pid = os.getpid()
    return WorkerRecord(
        id=f"{host}-{pid}-{secrets.token_hex(4)}",
        host=host,
        pid=pid,
        queues=queues,
        tasks=tuple(sorted(tasks)),
        concurrency=concurrency,
        version=RELEASE,
    )

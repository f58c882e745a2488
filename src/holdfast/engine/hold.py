"""A job that this process holds the lease of, from claim to verdict."""

from __future__ import annotations

import asyncio
import time

from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord, NewJob
from holdfast.model.task import TaskDefinition

now = time.monotonic


class Hold:
    """One held lease, shared between the worker's loop and the heartbeat's thread. Times are monotonic.

    `trust_until` is when this process must assume that the lease may be given to another. `stop` is set once,
    when the attempt is told to stop; handlers see it through their context.
    """

    __slots__ = (
        "children",
        "claimed",
        "committed",
        "definition",
        "ended",
        "lease",
        "missed",
        "progress",
        "progress_dirty",
        "progress_note",
        "record",
        "start_recorded",
        "started",
        "stop",
        "task",
        "timeout",
        "trust_until",
    )

    def __init__(
        self, record: JobRecord, definition: TaskDefinition, lease: float, trust_until: float, claimed: float
    ) -> None:
        self.record = record
        self.definition = definition
        self.lease = lease
        self.trust_until = trust_until
        self.claimed = claimed
        self.started: float | None = None
        self.start_recorded = False
        self.ended = False
        self.stop: Stop | None = None
        self.timeout: float | None = None
        self.missed = 0
        self.task: asyncio.Task[None] | None = None
        self.children: list[NewJob] | None = None
        self.committed = False
        self.progress: float | None = None
        self.progress_note: str | None = None
        self.progress_dirty = False

    def elapsed(self) -> int | None:
        """Microseconds since the handler started; None if it did not."""
        return None if self.started is None else round((now() - self.started) * 1_000_000)

"""A job that this process holds the lease of, from claim to verdict."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast.engine import surroundings
from holdfast.engine.tracing import Span
from holdfast.model.events import NewEvent
from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord, NewJob
from holdfast.model.task import TaskDefinition
from holdfast.model.timing import SECOND, Timing


@dataclass(frozen=True, slots=True)
class Terms:
    """How a lease is kept, in seconds: for how long it is trusted, how often and how patiently extended."""

    lease: float
    trust: float
    beat: float
    patience: float

    @classmethod
    def of(cls, timing: Timing, lease: int | None = None) -> Terms:
        """The worker's own terms; for a job with a shorter lease, the same in proportion."""
        length = (timing.lease if lease is None else lease) / SECOND
        share = min(1.0, length * SECOND / timing.lease)
        return cls(
            lease=length,
            trust=length - timing.margin * share / SECOND,
            beat=timing.heartbeat * share / SECOND,
            patience=timing.call_timeout * share / SECOND,
        )


class Hold:
    """One held lease, shared between the worker's loop and the heartbeat's thread.

    Times are those of `surroundings.now`. `trust_until` is when this process must assume that the lease may
    be given to another; it counts from when the call that got or extended the lease was sent. `stop` is set
    once, when the attempt is told to stop; handlers see it through their context. `given_up` is set once the
    lease is no longer extended.
    """

    __slots__ = (
        "beat_due",
        "children",
        "claimed",
        "committed",
        "definition",
        "ended",
        "events",
        "given_up",
        "missed",
        "progress",
        "progress_dirty",
        "progress_note",
        "record",
        "span",
        "start_recorded",
        "started",
        "stop",
        "task",
        "terms",
        "timeout",
        "trust_until",
    )

    def __init__(self, record: JobRecord, definition: TaskDefinition, terms: Terms, sent: float) -> None:
        self.record = record
        self.definition = definition
        self.terms = terms
        self.claimed = sent
        self.trust_until = sent + terms.trust
        self.beat_due = sent + terms.beat
        self.started: float | None = None
        self.start_recorded = False
        self.ended = False
        self.stop: Stop | None = None
        self.timeout: float | None = None
        self.missed = 0
        self.given_up = False
        self.task: asyncio.Task[None] | None = None
        self.span: Span | None = None
        self.children: list[NewJob] | None = None
        self.events: list[NewEvent] | None = None
        self.committed = False
        self.progress: float | None = None
        self.progress_note: str | None = None
        self.progress_dirty = False

    @property
    def key(self) -> tuple[str, int]:
        return self.record.id, self.record.token

    def elapsed(self) -> int | None:
        """Microseconds since the handler started; None if it did not."""
        return None if self.started is None else round((surroundings.now() - self.started) * SECOND)

    def runs_unseen_since(self, moment: float) -> bool:
        """Whether it started before the moment, and the store has not been told."""
        return self.started is not None and self.started < moment and not self.start_recorded

    def extended(self, sent: float) -> None:
        """Trusts the lease anew, from when the call that extended it was sent."""
        self.missed = 0
        self.trust_until = sent + self.terms.trust
        self.beat_due = sent + self.terms.beat

    def facts(self) -> dict[str, object]:
        """What every log line about this attempt says."""
        record = self.record
        return {
            "job": record.id,
            "task": record.task,
            "run": record.run,
            "token": record.token,
            "worker": record.worker,
        }

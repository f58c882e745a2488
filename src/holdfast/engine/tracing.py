"""The seam for who follows jobs and events from their sender to their effect. What they make of it is theirs.

An application has one tracer or none: `notices.tracer`, None until somebody sets it, and looked at before
anything is done for it. What a tracer raises is logged, and harms nothing.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.model.events import EventRecord, NewEvent
from holdfast.model.headers import Carrier, carrying
from holdfast.model.outcome import Outcome
from holdfast.model.records import Added, JobRecord, NewJob

if TYPE_CHECKING:
    from holdfast.engine.notices import Notices

log = logging.getLogger("holdfast.tracing")

New = TypeVar("New", NewJob, NewEvent)


class Sending(Protocol):
    """Jobs or events on their way; `carrier` is what each of them takes along."""

    carrier: Carrier

    def stored(self, answers: Sequence[Added]) -> None:
        """They are there; the answers for the jobs among them, if any."""
        ...

    def failed(self, error: BaseException) -> None: ...


class Span(Protocol):
    """One attempt at a job, or at an event for one group. With `carrier` another process goes on with it."""

    carrier: Carrier

    def ended(self, outcome: Outcome) -> None:
        """The handler's code has ended so."""
        ...

    def settled(self, outcome: str, reason: str | None) -> None:
        """What became of the attempt. Nothing follows."""
        ...


class Tracer(Protocol):
    """Who follows. Called on any thread, what begins an attempt in the context that its handler will have."""

    def sending(self, jobs: Sequence[NewJob], events: Sequence[NewEvent]) -> Sending:
        """They are being stored, on behalf of whatever is current."""
        ...

    def making(self, new: NewJob | NewEvent) -> Carrier:
        """It is made on behalf of what is current, and will be stored with something else."""
        ...

    def firing(self, schedule: str, jobs: Sequence[NewJob], events: Sequence[NewEvent]) -> Carrier:
        """A schedule makes them, on nobody's behalf."""
        ...

    def running(self, record: JobRecord) -> Span:
        """An attempt at a job begins: its span is the current one from now on."""
        ...

    def handling(self, group: str, event: EventRecord, run: int, worker: str) -> Span:
        """The same for an event."""
        ...

    def relaying(self, group: str, events: Sequence[EventRecord]) -> Sending:
        """Events are being handed on to another system."""
        ...

    def resuming(self, carrier: Carrier) -> None:
        """What another process began is the current one from now on."""
        ...


class unharmed:  # noqa: N801  it is used as a function would be
    """Logs what a tracer raises, and goes on behind the block."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        log.error("a tracer failed", exc_info=error)
        return True


class Trip:
    """Jobs and events with what they carry. `answers` is set by who stores them."""

    __slots__ = ("answers", "events", "jobs")

    def __init__(self, jobs: Sequence[NewJob], events: Sequence[NewEvent]) -> None:
        self.jobs = jobs
        self.events = events
        self.answers: Sequence[Added] = ()


@contextmanager
def following(
    notices: Notices | None, jobs: Sequence[NewJob] = (), events: Sequence[NewEvent] = ()
) -> Generator[Trip]:
    """Around the storing of jobs and events, which go as the trip has them."""
    tracer = None if notices is None else notices.tracer
    trip = Trip(jobs, events)
    sending: Sending | None = None
    if tracer is not None:
        with unharmed():
            sending = tracer.sending(jobs, events)
            trip.jobs = [carrying(job, sending.carrier) for job in jobs]
            trip.events = [carrying(event, sending.carrier) for event in events]
    with told(sending, trip):
        yield trip


@contextmanager
def relaying(notices: Notices, group: str, events: Sequence[EventRecord]) -> Generator[None]:
    """Around the handing on of events."""
    sending: Sending | None = None
    if notices.tracer is not None:
        with unharmed():
            sending = notices.tracer.relaying(group, events)
    with told(sending, Trip((), ())):
        yield


@contextmanager
def told(sending: Sending | None, trip: Trip) -> Generator[None]:
    """Tells how it went."""
    try:
        yield
    except BaseException as error:
        if sending is not None:
            with unharmed():
                sending.failed(error)
        raise
    if sending is not None:
        with unharmed():
            sending.stored(trip.answers)


def made(notices: Notices | None, new: New, otherwise: Carrier | None = None) -> New:
    """A job or event that will be stored with something else, with what it is to carry.

    If there is no tracer here, that is what it would carry `otherwise`.
    """
    tracer = None if notices is None else notices.tracer
    if tracer is not None:
        with unharmed():
            return carrying(new, tracer.making(new))
    elif otherwise is not None:
        return carrying(new, otherwise)
    return new


def begun(begin: Callable[[], Span]) -> tuple[contextvars.Context, Span | None]:
    """The context for a handler, and the span that is the current one there; None if the tracer failed."""
    context = contextvars.Context()
    with unharmed():
        return context, context.run(begin)
    return context, None


def ended(span: Span, outcome: Outcome) -> None:
    """Tells a span how the handler's code has ended."""
    with unharmed():
        span.ended(outcome)


def settled(span: Span, outcome: str, reason: str | None = None) -> None:
    """Tells a span what became of its attempt."""
    with unharmed():
        span.settled(outcome, reason)

"""OpenTelemetry: the tracer that follows jobs and events, and the metrics as instruments of a meter.

The only file that imports it. Spans and attributes follow the conventions for messaging; what those have no
word for begins with `holdfast.`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Protocol

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter_provider
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from holdfast.engine.notices import Notices
from holdfast.model.errors import ConfigurationError
from holdfast.model.events import EventRecord, NewEvent
from holdfast.model.headers import Carrier, carried
from holdfast.model.masking import mask
from holdfast.model.outcome import Failed, Outcome
from holdfast.model.records import Added, JobRecord, NewJob
from holdfast.model.report import BOUNDS
from holdfast.telemetry.catalogue import CATALOGUE
from holdfast.telemetry.instruments import Definition, Distribution, Family, Labels
from holdfast.telemetry.metrics import Metrics

SCOPE = "holdfast"
BAD = frozenset({"failed", "retry", "refused", "parked", "lost", "untold"})
MOST_LINKS = 128

Attributes = dict[str, AttributeValue]


class Traced(Protocol):
    """What is needed of a Holdfast."""

    @property
    def notices(self) -> Notices: ...


class Tracing:
    """Follows the jobs and events of an application from now on, until it is closed.

    An attempt belongs to the trace of whoever enqueued its job. With `links` it begins one of its own that
    links to it: better for jobs that are due days later, or of which one request makes thousands.
    """

    def __init__(
        self,
        app: Traced,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        links: bool = False,
    ) -> None:
        if app.notices.tracer is not None:
            raise ConfigurationError("the application is being traced already; close the first", setting=None)
        self._tracer = trace.get_tracer(SCOPE, version(SCOPE), tracer_provider)
        self._links = links
        self._notices = app.notices
        app.notices.tracer = self

    def close(self) -> None:
        """Follows nothing that begins later."""
        if self._notices.tracer is self:
            self._notices.tracer = None

    def sending(self, jobs: Sequence[NewJob], events: Sequence[NewEvent]) -> _Sending:
        span = self._producer("send", jobs, events)
        return _Sending(span, _carrier(span))

    def making(self, new: NewJob | NewEvent) -> Carrier:
        job, event = ([new], []) if isinstance(new, NewJob) else ([], [new])
        span = self._producer("create", job, event)
        span.end()
        return _carrier(span)

    def firing(self, schedule: str, jobs: Sequence[NewJob], events: Sequence[NewEvent]) -> Carrier:
        span = self._producer("create", jobs, events, Context())
        span.set_attribute("holdfast.schedule", schedule)
        span.end()
        return _carrier(span, Context())

    def running(self, record: JobRecord) -> _Attempt:
        attributes: Attributes = {
            "messaging.operation.name": "run",
            "messaging.destination.name": record.queue,
            "messaging.message.id": record.id,
            "messaging.message.body.size": len(record.payload),
            "holdfast.task": record.task,
            "holdfast.job.id": record.id,
            "holdfast.queue": record.queue,
            "holdfast.run": record.run,
            "holdfast.token": record.token,
        }
        return self._attempt(f"run {record.task}", record.headers, record.worker or "", attributes)

    def handling(self, group: str, event: EventRecord, run: int, worker: str) -> _Attempt:
        attributes: Attributes = {
            "messaging.operation.name": "handle",
            "messaging.destination.name": event.topic,
            "messaging.consumer.group.name": group,
            "messaging.message.id": event.id,
            "messaging.message.body.size": len(event.data),
            "holdfast.event.type": event.type,
            "holdfast.event.position": event.position,
            "holdfast.run": run,
        }
        return self._attempt(f"handle {event.topic}", event.headers, worker, attributes)

    def relaying(self, group: str, events: Sequence[EventRecord]) -> _Sending:
        carriers = {event.headers: carried(event.headers) for event in events}
        topic = events[0].topic
        attributes: Attributes = {
            "messaging.system": SCOPE,
            "messaging.operation.name": "relay",
            "messaging.operation.type": "process",
            "messaging.destination.name": topic,
            "messaging.consumer.group.name": group,
            "messaging.batch.message_count": len(events),
        }
        span = self._tracer.start_span(
            f"relay {topic}",
            Context(),
            SpanKind.CONSUMER,
            attributes,
            [
                Link(trace.get_current_span(found).get_span_context())
                for found in map(_extracted, [*carriers.values()][:MOST_LINKS])
            ],
        )
        return _Sending(span, {})

    def resuming(self, carrier: Carrier) -> None:
        contexts.attach(_extracted(carrier))

    def _producer(
        self,
        kind: str,
        jobs: Sequence[NewJob],
        events: Sequence[NewEvent],
        context: Context | None = None,
    ) -> trace.Span:
        """A span for whoever makes jobs and events: one for all that are stored together."""
        verb, named = ("enqueue", {job.task for job in jobs}) if jobs else ("emit", {e.topic for e in events})
        places = {job.queue for job in jobs} | {event.topic for event in events}
        attributes: Attributes = {
            "messaging.system": SCOPE,
            "messaging.operation.name": verb,
            "messaging.operation.type": kind,
        }
        if len(places) == 1:
            attributes["messaging.destination.name"] = next(iter(places))
        if len(jobs) + len(events) == 1:
            attributes["messaging.message.id"] = (jobs or events)[0].id
        else:
            attributes["messaging.batch.message_count"] = len(jobs) + len(events)
        if jobs and len(named) == 1:
            attributes |= {"holdfast.task": jobs[0].task, "holdfast.queue": jobs[0].queue}
        if len(jobs) == 1:
            attributes["holdfast.job.id"] = jobs[0].id
        name = f"{verb} {next(iter(named))}" if len(named) == 1 else verb
        return self._tracer.start_span(name, context, SpanKind.PRODUCER, attributes)

    def _attempt(self, name: str, headers: bytes | None, worker: str, attributes: Attributes) -> _Attempt:
        """A span that is the current one of this context, as long as that is used."""
        attributes |= {
            "messaging.system": SCOPE,
            "messaging.operation.type": "process",
            "messaging.client.id": worker,
            "holdfast.worker": worker,
        }
        sender = _extracted(carried(headers))
        cause = trace.get_current_span(sender).get_span_context()
        parent, links = sender, None
        if self._links and cause.is_valid:
            # What else it carries, such as baggage, is taken along.
            parent, links = trace.set_span_in_context(trace.INVALID_SPAN, sender), [Link(cause)]
        span = self._tracer.start_span(name, parent, SpanKind.CONSUMER, attributes, links)
        current = trace.set_span_in_context(span, sender)
        contexts.attach(current)
        return _Attempt(span, _injected(current))


def _carrier(span: trace.Span, context: Context | None = None) -> dict[str, str]:
    return _injected(trace.set_span_in_context(span, context))


def _injected(context: Context) -> dict[str, str]:
    carrier: dict[str, str] = {}
    inject(carrier, context)
    return carrier


def _extracted(carrier: Carrier) -> Context:
    return extract(carrier, Context())


class _Sending:
    def __init__(self, span: trace.Span, carrier: Carrier) -> None:
        self.carrier = carrier
        self._span = span

    def stored(self, answers: Sequence[Added]) -> None:
        if len(answers) == 1:
            job_id = answers[0].record.id
            self._span.set_attributes(
                {
                    "messaging.message.id": job_id,
                    "holdfast.job.id": job_id,
                    "holdfast.job.created": answers[0].created,
                }
            )
        self._span.end()

    def failed(self, error: BaseException) -> None:
        if self._span.is_recording():
            trail = "".join(traceback.format_exception(error))
            self._span.add_event("exception", _told(type(error).__qualname__, str(error), trail))
        _mark_bad(self._span, f"{type(error).__name__}: {error}", type(error).__qualname__)
        self._span.end()


class _Attempt:
    def __init__(self, span: trace.Span, carrier: Carrier) -> None:
        self.carrier = carrier
        self._span = span
        self._ended: int | None = None

    def ended(self, outcome: Outcome) -> None:
        self._ended = time.time_ns()
        if not isinstance(outcome, Failed) or not self._span.is_recording():
            return
        kind = "error" if outcome.exception is None else type(outcome.exception).__qualname__
        self._span.add_event("exception", _told(kind, outcome.reason, outcome.error), self._ended)
        self._span.set_attribute("error.type", kind)

    def settled(self, outcome: str, reason: str | None) -> None:
        self._span.set_attribute("holdfast.outcome", outcome)
        if reason is not None:
            self._span.set_attribute("holdfast.reason", mask(reason))
        if outcome in BAD:
            _mark_bad(self._span, f"{outcome}: {reason}" if reason else outcome)
        self._span.end(self._ended)


def _told(kind: str, message: str, trail: str | None) -> Attributes:
    told: Attributes = {"exception.type": kind, "exception.message": mask(message)}
    if trail is not None:
        told["exception.stacktrace"] = mask(trail)
    return told


def _mark_bad(span: trace.Span, why: str, kind: str | None = None) -> None:
    span.set_status(Status(StatusCode.ERROR, mask(why)))
    if kind is not None:
        span.set_attribute("error.type", kind)


class OpenTelemetryMetrics:
    """Shows the metrics as instruments of a meter, until they are closed.

    Counters and gauges are read when somebody collects; histograms are told each value as it is observed.
    Names are those of the catalogue as Prometheus' exporter would make them: `holdfast.queue_depth`.
    """

    def __init__(self, metrics: Metrics, *, meter_provider: MeterProvider | None = None) -> None:
        self._metrics = metrics
        self._left: dict[Definition, Family] = {}
        meter = (meter_provider or get_meter_provider()).get_meter(SCOPE, version(SCOPE))
        self._histograms = {
            each: meter.create_histogram(
                name_of(each), "s", each.help, explicit_bucket_boundaries_advisory=BOUNDS
            )
            for each in CATALOGUE
            if each.kind == "histogram"
        }
        for each in CATALOGUE:
            if each.kind != "histogram":
                _observe(meter, each, self._reader(each))
        metrics.forward(self._record)
        self._is_closed = False

    def close(self) -> None:
        """Tells nothing more. A meter forgets no instrument, so they stay, without values."""
        self._is_closed = True
        self._metrics.forward(None)

    def _record(self, definition: Definition, value: float, labels: Labels) -> None:
        self._histograms[definition].record(value, dict(zip(definition.labels, labels, strict=True)))

    def _reader(self, definition: Definition) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_options: CallbackOptions) -> Iterable[Observation]:
            if self._is_closed:
                return []
            points = self._take(definition).points.items()
            return [
                Observation(point, dict(zip(definition.labels, labels, strict=True)))
                for labels, point in points
                if not isinstance(point, Distribution)
            ]

        return read

    def _take(self, definition: Definition) -> Family:
        """Of one moment for all who ask once; who asks again has begun another collection."""
        if definition not in self._left:
            self._left = {family.definition: family for family in self._metrics.families()}
        return self._left.pop(definition)


def _observe(
    meter: Meter, definition: Definition, read: Callable[[CallbackOptions], Iterable[Observation]]
) -> None:
    if definition.kind == "counter":
        meter.create_observable_counter(name_of(definition), [read], description=definition.help)
    else:
        unit = "s" if definition.name.endswith("_seconds") else ""
        meter.create_observable_gauge(name_of(definition), [read], unit, definition.help)


def name_of(definition: Definition) -> str:
    """`holdfast.attempts` for holdfast_attempts_total: kind and unit are told beside the name."""
    name = definition.name.removeprefix("holdfast_").removesuffix("_total").removesuffix("_seconds")
    return f"{SCOPE}.{name}"

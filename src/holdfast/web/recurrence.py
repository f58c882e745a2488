"""When a schedule is due, as JSON says it, both ways."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Union

import msgspec
from msgspec import Meta

from holdfast.model.cron import Cron, cron
from holdfast.model.recurrence import Anchor, At, Every, Recurrence, at, every
from holdfast.model.timing import SECOND, moment
from holdfast.web.fields import Instant


class EveryDocument(msgspec.Struct, tag_field="kind", tag="every", kw_only=True, forbid_unknown_fields=True):
    """At an interval in seconds, counted from a fixed start, or from the start or end of the last run."""

    seconds: Annotated[float, Meta(ge=1, le=3_162_240_000)]
    anchor: Anchor = "rate"
    start: Instant | None = None


class CronDocument(msgspec.Struct, tag_field="kind", tag="cron", kw_only=True, forbid_unknown_fields=True):
    """By a cron expression, in a time zone."""

    expression: Annotated[str, Meta(min_length=1, max_length=500)]
    tz: Annotated[str, Meta(min_length=1, max_length=100)] = "UTC"


class AtDocument(msgspec.Struct, tag_field="kind", tag="at", kw_only=True, forbid_unknown_fields=True):
    """Once, at an instant."""

    at: Instant


RecurrenceDocument = Union[EveryDocument, CronDocument, AtDocument]  # noqa: UP007  msgspec reads it


def recurrence_document(recurrence: Recurrence) -> RecurrenceDocument:
    match recurrence:
        case Every(interval, anchor, start):
            since: datetime | None = None if start is None else moment(start)
            return EveryDocument(seconds=interval / SECOND, anchor=anchor, start=since)
        case Cron(expression, tz):
            return CronDocument(expression=expression, tz=tz)
        case At(instant):
            return AtDocument(at=moment(instant))


def as_recurrence(document: RecurrenceDocument) -> Recurrence:
    """What was said; ConfigurationError names what is wrong with it."""
    match document:
        case EveryDocument():
            return every(document.seconds, anchor=document.anchor, start=document.start)
        case CronDocument():
            return cron(document.expression, tz=document.tz)
        case AtDocument():
            return at(document.at)

"""When a schedule is due: at an interval, by a cron expression, or once. Stored as data.

Instants are microseconds UTC. `origin` is the store's instant at which the recurrence was put there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from typing import Literal, TypeAlias, Union

import msgspec

from holdfast.model.cron import Cron
from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.timing import FAR, LAST, SECOND, Seconds, instant, micros

Anchor: TypeAlias = Literal["rate", "start", "end"]

SHORTEST = SECOND
MOST_COUNTED = 10_000
_ANCHORS = ("rate", "start", "end")
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400, "weeks": 604_800}


class Every(msgspec.Struct, frozen=True, tag="every"):
    """At an interval, counted from a fixed start (`rate`), or from the start or the end of the last run.

    An interval is elapsed time: a day is always 24 hours.
    """

    interval: int
    anchor: Anchor = "rate"
    start: int | None = None

    def __post_init__(self) -> None:
        if not SHORTEST <= self.interval <= FAR:
            raise ConfigurationError("an interval is from 1 second to 100 years long", setting="every")
        if self.anchor not in _ANCHORS:
            raise ConfigurationError(
                f"{ascii(self.anchor)[:40]} is not one of {', '.join(_ANCHORS)}", setting="every.anchor"
            )
        if self.start is not None and self.anchor != "rate":
            raise ConfigurationError(
                f"only anchor='rate' has a start; anchor={self.anchor!r} counts from its last run",
                setting="every.start",
            )

    def next_after(self, instant: int, origin: int) -> int | None:
        """The first due time later than the instant; by `start` and `end`, as if a run were there then.

        None beyond the calendar.
        """
        if self.anchor != "rate":
            return _known(instant + self.interval)
        start, first = (origin, 1) if self.start is None else (self.start, 0)
        return _known(start + max(first, (instant - start) // self.interval + 1) * self.interval)


def _known(due: int) -> int | None:
    return due if due <= LAST else None


class At(msgspec.Struct, frozen=True, tag="at"):
    """Once, at an instant; if that has passed, as soon as possible."""

    instant: int

    def next_after(self, instant: int, origin: int) -> int | None:
        return self.instant if self.instant > instant else None


Recurrence: TypeAlias = Union[Every, Cron, At]  # noqa: UP007  msgspec reads it at run time


def every(
    interval: Seconds = 0,
    *,
    seconds: float = 0,
    minutes: float = 0,
    hours: float = 0,
    days: float = 0,
    weeks: float = 0,
    anchor: Anchor = "rate",
    start: datetime | None = None,
) -> Every:
    """Recurring at an interval, which is the sum of what is given.

    `anchor="rate"`: due at start + k × interval exactly, however late or long the runs are; without a start
    it is the moment at which the schedule is stored, and the first run is one interval later.
    `anchor="start"`: one interval after the last run started. `anchor="end"`: one interval after it ended.
    """
    parts = {"seconds": seconds, "minutes": minutes, "hours": hours, "days": days, "weeks": weeks}
    try:
        length = micros(interval, "interval")
        length += sum(micros(_UNITS[name] * _number(value, name), name) for name, value in parts.items())
    except InvalidJob as error:
        raise ConfigurationError(error.problem, setting=f"every.{error.field}") from None
    return Every(length, anchor, None if start is None else _instant(start, "every.start"))


def _number(value: object, name: str) -> float:
    if isinstance(value, int | float):
        return value
    raise InvalidJob(name, f"{ascii(value)[:60]} is not a number")


def at(when: datetime) -> At:
    """Once, at that moment; a datetime without a time zone is refused."""
    return At(_instant(when, "at"))


def _instant(value: object, setting: str) -> int:
    if not isinstance(value, datetime):
        raise ConfigurationError(f"{ascii(value)[:60]} is not a datetime", setting=setting)
    try:
        return instant(value, setting)
    except InvalidJob as error:
        raise ConfigurationError(error.problem, setting=setting) from None


def check_recurrence(value: object) -> Recurrence:
    """The recurrence itself, or ConfigurationError."""
    if isinstance(value, Every | Cron | At):
        return value
    raise ConfigurationError(
        f"{ascii(value)[:60]} is not made by every(...), cron(...) or at(...)", setting="schedule.recurrence"
    )


def waits_for_run(recurrence: Recurrence) -> bool:
    """Whether the next due time is known only when the run has started or ended."""
    return isinstance(recurrence, Every) and recurrence.anchor != "rate"


def first_due(recurrence: Recurrence, now: int, origin: int) -> int | None:
    """The due time of a recurrence that begins, or begins anew: what passed until now is not made up for."""
    if isinstance(recurrence, At):
        return recurrence.instant
    return recurrence.next_after(now, origin)


def due_after_run(recurrence: Recurrence, started: int | None, ended: int) -> int | None:
    """The due time that follows a run, for a recurrence that waits for it.

    A run without a start (cancelled, or gone) counts from its end.
    """
    if not isinstance(recurrence, Every) or recurrence.anchor == "rate":
        return None
    since = started if recurrence.anchor == "start" and started is not None else ended
    return _known(since + recurrence.interval)


def upcoming(recurrence: Recurrence, due: int | None, origin: int) -> Iterator[int]:
    """The due times from the one given on, as far as they are known without the runs."""
    while due is not None:
        yield due
        due = None if waits_for_run(recurrence) else recurrence.next_after(due, origin)


class Passed(msgspec.Struct, frozen=True):
    """The due times up to now: the latest, oldest first; how many in all; the one that follows."""

    latest: tuple[int, ...]
    count: int
    following: int | None


def passed(recurrence: Recurrence, due: int, now: int, origin: int, keep: int) -> Passed:
    """The due times from `due` up to now, of which at most `keep` are given back.

    Of a cron expression at most MOST_COUNTED are counted, but the latest are always the latest.
    """
    if isinstance(recurrence, Every) and recurrence.anchor == "rate":
        gone = (now - due) // recurrence.interval
        latest = range(max(0, gone - keep + 1), gone + 1)
        return Passed(
            tuple(due + step * recurrence.interval for step in latest),
            gone + 1,
            _known(due + (gone + 1) * recurrence.interval),
        )
    found: deque[int] = deque(maxlen=keep)
    count = 0
    for known in upcoming(recurrence, due, origin):
        if known > now:
            return Passed(tuple(found), count, known)
        if count == MOST_COUNTED:
            return Passed(_latest(recurrence, now, origin, keep), count, recurrence.next_after(now, origin))
        found.append(known)
        count += 1
    return Passed(tuple(found), count, None)


def _latest(recurrence: Recurrence, now: int, origin: int, keep: int) -> tuple[int, ...]:
    """The last due times up to now of a recurrence that has had enough of them, from near to far."""
    span = SECOND
    found: deque[int] = deque(maxlen=keep)
    while len(found) < keep:
        span *= 2
        later = upcoming(recurrence, recurrence.next_after(now - span, origin), origin)
        found = deque(takewhile(lambda due: due <= now, later), maxlen=keep)
    return tuple(found)

"""A cron expression taken apart: which wall-clock times it names, in whatever time zone.

Fields: [second] minute hour day-of-month month day-of-week. Each set of numbers is a bit mask, so that the
next one is found by shifts and never by trying.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache

from holdfast.model.errors import ConfigurationError

LONGEST = 200
LAST_YEAR = 9990
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LAST = 0  # the occurrence of a weekday in its month that `friL` means; `fri#2` means 2

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EVERY_WEEKDAY = 0b111_1111
_EVERY_WEEK = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29


@dataclass(frozen=True, slots=True)
class CronFields:
    """The wall-clock times of an expression.

    `either` says that a day needs to match only one of its two fields; `interval` that the expression names
    a rhythm rather than times of day, which matters when clocks are changed.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    last_day: bool
    months: int
    weekdays: int
    occurrences: tuple[tuple[int, int], ...]
    either: bool
    interval: bool

    def next_after(self, wall: datetime) -> datetime | None:
        """The first wall-clock time that matches and is later; None beyond the calendar."""
        year, month, day = wall.year, wall.month, wall.day
        left = self.days_of(year, month) if self.months >> month & 1 else 0
        if left >> day & 1 and (later := self._time_after(wall.hour, wall.minute, wall.second)):
            return datetime(year, month, day, *later)  # noqa: DTZ001  a clock on a wall knows no zone
        left = left >> day + 1 << day + 1
        while not left:
            if later_months := self.months >> month + 1:
                month += 1 + _lowest(later_months)
            else:
                year, month = year + 1, _lowest(self.months)
            if year > LAST_YEAR:
                return None
            left = self.days_of(year, month)
        first = _lowest(self.hours), _lowest(self.minutes), _lowest(self.seconds)
        return datetime(year, month, _lowest(left), *first)  # noqa: DTZ001

    def _time_after(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The next hour, minute and second of the same day."""
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (later := self.seconds >> second + 1):
                return hour, minute, second + 1 + _lowest(later)
            if later := self.minutes >> minute + 1:
                return hour, minute + 1 + _lowest(later), _lowest(self.seconds)
        if later := self.hours >> hour + 1:
            return hour + 1 + _lowest(later), _lowest(self.minutes), _lowest(self.seconds)
        return None

    def days_of(self, year: int, month: int) -> int:
        """The days of that month, which may or may not be among the months."""
        length = _LENGTHS[month] + (month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))
        if self.weekdays == _EVERY_WEEKDAY and not self.either:
            return self._month_days(length)
        return self._days(length, date(year, month, 1).isoweekday() % 7)

    def is_possible(self) -> bool:
        """Whether there is any such day; every month begins on every weekday some time."""
        return any(
            self._days(length, first)
            for month in range(1, 13)
            if self.months >> month & 1
            for length in ((28, 29) if month == 2 else (_LENGTHS[month],))
            for first in range(7)
        )

    def _month_days(self, length: int) -> int:
        return (self.days | self.last_day << length) & (2 << length) - 2

    def _days(self, length: int, first: int) -> int:
        """The days of a month of that length whose first day is that weekday (0 is Sunday)."""
        turned = (self.weekdays >> first | self.weekdays << 7 - first) & _EVERY_WEEKDAY
        by_weekday = turned * _EVERY_WEEK
        for weekday, occurrence in self.occurrences:
            day = 1 + (weekday - first) % 7
            if occurrence == LAST:
                day += (length - day) // 7 * 7
            else:
                day += 7 * (occurrence - 1)
            by_weekday |= 1 << day
        by_weekday &= (2 << length) - 2
        by_month = self._month_days(length)
        return by_month | by_weekday if self.either else by_month & by_weekday


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    def refused(self, part: str, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{ascii(part)[:40]} {why}; allowed are {self.allowed()}", setting=f"cron.{self.name}"
        )

    def allowed(self) -> str:
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        special = {"day": ", L for the last day, ?", "weekday": ", fri#2 and friL for the second and last, ?"}
        return (
            f"{self.first} to {self.last}{named}, lists (1,3), ranges (1-5), steps (*/2, 1-5/2), *"
            f"{special.get(self.name, '')}"
        )

    def number(self, text: str) -> int:
        if text in self.names:
            return self.names.index(text) + (1 if self.name == "month" else 0)
        if not (text.isascii() and text.isdigit()):
            raise self.refused(text, "is not a number or name" if self.names else "is not a number")
        if not self.first <= int(text) <= self.last:
            raise self.refused(text, "is out of range")
        return int(text)

    def mask(self, text: str) -> int:
        """The bits of a list of numbers, ranges and steps."""
        bits = 0
        for part in text.split(","):
            span, slash, step_text = part.partition("/")
            step = self.step(step_text, part) if slash else 1
            start, end = self.span(span, part, open_ended=bool(slash))
            bits |= sum(1 << number for number in range(start, end + 1, step))
        return bits

    def span(self, span: str, part: str, *, open_ended: bool) -> tuple[int, int]:
        if span == "*" or (span == "?" and self.name in {"day", "weekday"}):
            return self.first, self.last
        start_text, dash, end_text = span.partition("-")
        start = self.number(start_text)
        if not dash:
            return start, self.last if open_ended else start
        end = self.number(end_text)
        if end_text == "sun":
            end = 7
        if end < start:
            raise self.refused(part, "is a range that runs backwards: write it as two, such as 22-23,0-2")
        return start, end

    def step(self, text: str, part: str) -> int:
        size = self.last - self.first + 1
        if not (text.isascii() and text.isdigit()) or int(text) == 0:
            raise self.refused(part, "needs a whole number from 1 up after its /")
        if int(text) > size:
            raise self.refused(
                part,
                f"has a step beyond the {size} that this field has, which would never be taken: "
                "use every(...) for a longer interval",
            )
        return int(text)


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day", 1, 31)
_MONTH = _Field("month", 1, 12, MONTHS)
_WEEKDAY = _Field("weekday", 0, 7, WEEKDAYS)


@lru_cache(maxsize=20_000)
def parse_cron(expression: str) -> CronFields:
    """The expression's fields, or ConfigurationError that names the field, the fault and what is allowed."""
    if len(expression) > LONGEST:
        raise ConfigurationError(f"an expression has at most {LONGEST} characters", setting="cron")
    text = expression.strip().lower()
    if text.startswith("@") and text not in NICKNAMES:
        raise ConfigurationError(
            f"{ascii(text)[:40]} is not known; use {', '.join(NICKNAMES)}, or every(...) for an interval",
            setting="cron",
        )
    texts = NICKNAMES.get(text, text).split()
    if len(texts) not in {5, 6}:
        raise ConfigurationError(
            f"{ascii(expression)[:60]} has {len(texts)} fields; it needs five (minute hour day month "
            "weekday), or six with the second first",
            setting="cron",
        )
    second, minute, hour, day, month, weekday = texts if len(texts) == 6 else ["0", *texts]
    days, last_day = _days(day)
    weekdays, occurrences = _weekdays(weekday)
    fields = CronFields(
        seconds=_SECOND.mask(second),
        minutes=_MINUTE.mask(minute),
        hours=_HOUR.mask(hour),
        days=days,
        last_day=last_day,
        months=_MONTH.mask(month),
        weekdays=weekdays,
        occurrences=occurrences,
        either=day[0] not in "*?" and weekday[0] not in "*?",
        interval="*" in {second[0], minute[0], hour[0]},
    )
    if not fields.is_possible():
        raise ConfigurationError(
            f"{ascii(expression)[:60]} never happens: no month that it names has such a day",
            setting="cron.day",
        )
    return fields


def _days(text: str) -> tuple[int, bool]:
    parts = text.split(",")
    numbered = [part for part in parts if part != "l"]
    return _DAY.mask(",".join(numbered)) if numbered else 0, len(numbered) < len(parts)


def _weekdays(text: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    plain: list[str] = []
    occurrences: list[tuple[int, int]] = []
    for part in text.split(","):
        weekday, hash_sign, number = part.partition("#")
        if hash_sign:
            if number not in {"1", "2", "3", "4", "5"}:
                raise _WEEKDAY.refused(part, "needs a number from 1 to 5 after its #")
            occurrences.append((_WEEKDAY.number(weekday) % 7, int(number)))
        elif part.endswith("l") and part != "l":
            occurrences.append((_WEEKDAY.number(part[:-1]) % 7, LAST))
        else:
            plain.append(part)
    bits = _WEEKDAY.mask(",".join(plain)) if plain else 0
    return (bits | bits >> 7) & _EVERY_WEEKDAY, tuple(occurrences)

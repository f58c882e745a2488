"""Cron expressions in a time zone, with the daylight-saving rules of Vixie cron.

A time of day that a clock change skips happens once, right after the gap; one that is repeated happens once,
the first time. An interval expression, which has a star at the beginning of its second, minute or hour
field, follows the clock on the wall: nothing in the gap, and twice what is repeated.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from holdfast.model.cron_fields import LAST_YEAR, CronFields, parse_cron
from holdfast.model.errors import ConfigurationError
from holdfast.model.timing import SECOND

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  wall-clock times have no zone
_EPOCH_DAY = _EPOCH.toordinal()
_TICK = timedelta(seconds=1)
_FAR = int(datetime(2400, 1, 1, tzinfo=UTC).timestamp()) * SECOND
"""What happens after this by the rules that a time zone has now happens again and again."""

_LAST_INSTANT = int(datetime(LAST_YEAR, 1, 1, tzinfo=UTC).timestamp())


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """Whenever the clock on the wall of that time zone shows what the expression names."""

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        parse_cron(self.expression)
        zone(self.tz)

    def next_after(self, instant: int, origin: int = 0) -> int | None:
        """The first due time later than the instant; None beyond the calendar."""
        now = max(0, instant // SECOND)
        if now >= _LAST_INSTANT:
            return None
        fields, place = parse_cron(self.expression), zone(self.tz)
        find = _interval_after if fields.interval else _fixed_after
        found = find(fields, place, now)
        return None if found is None else found * SECOND


def cron(expression: str, *, tz: str = "UTC") -> Cron:
    """Recurring at what a cron expression names, in a time zone by its IANA name.

    Five fields (minute, hour, day of month, month, day of week), or six with the second first. Lists, ranges,
    steps, names of months and weekdays, `L` for the last day of the month, `fri#2` and `friL` for the second
    and the last Friday, `@daily` and its like. 0 and 7 are Sunday. If neither day field begins with a star,
    a day needs to match only one of them.
    """
    made = Cron(" ".join(_text(expression, "cron").split()), _text(tz, "cron.tz"))
    if made.next_after(_FAR) is None:
        raise ConfigurationError(
            f"{ascii(made.expression)[:60]} never happens in {made.tz}: clocks there skip all that it names",
            setting="cron",
        )
    return made


def _text(value: object, setting: str) -> str:
    if isinstance(value, str):
        return value
    raise ConfigurationError(f"{ascii(value)[:60]} is not a text", setting=setting)


@cache
def zone(name: str) -> tzinfo:
    """The time zone of that name; the one place that looks at the machine's time zone data."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (LookupError, OSError, TypeError, ValueError) as error:
        hint = "use a name such as UTC or Europe/Berlin"
        if not available_timezones():
            hint = "this machine has no time zone data: install the system's tzdata or the package tzdata"
        raise ConfigurationError(
            f"{ascii(name)[:60]} is not a known time zone; {hint}", setting="cron.tz"
        ) from error


def _fixed_after(fields: CronFields, place: tzinfo, now: int) -> int | None:
    """Every wall-clock time once: the first time that it is shown, or the end of the gap that it is in."""
    wall = datetime.fromtimestamp(now, place)
    found = fields.next_after(_repeat_end(place, wall) - _TICK if wall.fold else wall)
    if found is None:
        return None
    before, after = _offsets(place, found)
    if before < after:
        return _change(place, _seconds(found) - after, _seconds(found) - before)
    return _seconds(found) - before


def _interval_after(fields: CronFields, place: tzinfo, now: int) -> int | None:
    """Every moment at which the clock on the wall shows a time that matches."""
    start = wall = datetime.fromtimestamp(now, place)
    before, after = _offsets(place, wall)
    if before > after and not wall.fold:
        end = _repeat_end(place, wall)
        found = fields.next_after(wall)
        if found is not None and found < end:
            return _seconds(found) - before
        start = end - timedelta(seconds=before - after) - _TICK
    while (found := fields.next_after(start)) is not None:
        before, after = _offsets(place, found)
        if before >= after:
            first = _seconds(found) - before
            return first if first > now else _seconds(found) - after
        gap_end = _change(place, _seconds(found) - after, _seconds(found) - before)
        start = _EPOCH + timedelta(seconds=gap_end + after) - _TICK
    return None


def _offsets(place: tzinfo, wall: datetime) -> tuple[int, int]:
    """Seconds from UTC at that wall-clock time, by the first and by the second reading of it.

    They differ where clocks are changed: the first is smaller in a gap, and larger in a repetition.
    """
    shown = wall.year, wall.month, wall.day, wall.hour, wall.minute, wall.second
    return _offset(datetime(*shown, tzinfo=place)), _offset(datetime(*shown, tzinfo=place, fold=1))


def _offset(aware: datetime) -> int:
    offset = aware.utcoffset()
    assert offset is not None
    return offset.days * 86_400 + offset.seconds


def _seconds(wall: datetime) -> int:
    passed = wall.toordinal() - _EPOCH_DAY
    return passed * 86_400 + wall.hour * 3600 + wall.minute * 60 + wall.second


def _repeat_end(place: tzinfo, wall: datetime) -> datetime:
    """The wall-clock time at which the repetition ends that this one is in."""
    before, after = _offsets(place, wall)
    change = _change(place, _seconds(wall) - before, _seconds(wall) - after)
    return _EPOCH + timedelta(seconds=change + before)


def _change(place: tzinfo, low: int, high: int) -> int:
    """The instant later than `low`, at most `high`, from which on the offset is that of `high`."""
    new = _offset(datetime.fromtimestamp(high, place))
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(datetime.fromtimestamp(middle, place)) == new:
            high = middle
        else:
            low = middle
    return high

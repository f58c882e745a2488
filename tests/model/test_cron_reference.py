"""Cron against two independent references: cronsim, and Vixie cron's own loop played minute by minute."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.cron import cron

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60, 3_600, 86_400
BEGIN = int(datetime(2011, 7, 1, tzinfo=UTC).timestamp())
END = int(datetime(2021, 7, 1, tzinfo=UTC).timestamp())

ZONES = [
    "Africa/Cairo",  # gap at midnight; four changes in 2014
    "Africa/Casablanca",  # summer time interrupted by Ramadan
    "America/Asuncion",
    "America/Havana",  # gap at midnight
    "America/Los_Angeles",
    "America/New_York",
    "America/Santiago",  # gap and repetition at midnight, so that a day begins twice
    "America/Sao_Paulo",  # gap at midnight until 2018
    "America/St_Johns",  # half an hour off, changes at 00:01 until November 2011
    "Antarctica/Troll",  # two hours of summer time
    "Asia/Beirut",  # gap at midnight
    "Asia/Kolkata",  # no changes
    "Asia/Tehran",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",  # winter is the deviation
    "Europe/Istanbul",
    "Pacific/Apia",  # no 30 December 2011
    "Pacific/Auckland",
    "Pacific/Chatham",
    "UTC",
]


def offset_of(instant: int, place: ZoneInfo) -> timedelta:
    return datetime.fromtimestamp(instant, place).utcoffset() or timedelta()


@cache
def changes(name: str) -> list[int]:
    """Every instant in the ten years at which the clocks of that zone are changed."""
    place = ZoneInfo(name)
    found = []
    for start, end in pairwise(range(BEGIN, END + DAY, DAY)):
        old = offset_of(start, place)
        if old != offset_of(end, place):
            seconds = range(start, end)
            found.append(start + bisect_left(seconds, True, key=lambda at: offset_of(at, place) != old))
    return found


def ours(expression: str, name: str, start: int, end: int) -> list[int]:
    return list(fired(expression, name, start, end))


def fired(expression: str, name: str, start: int, end: int) -> Iterator[int]:
    recurrence = cron(expression, tz=name)
    due = recurrence.next_after(start * SECOND)
    while due is not None and due <= end * SECOND:
        assert due % SECOND == 0
        yield due // SECOND
        due = recurrence.next_after(due)


def cronsims(expression: str, name: str, start: int, end: int) -> list[int]:
    found = []
    for moment in CronSim(expression, datetime.fromtimestamp(start, ZoneInfo(name))):
        if moment.timestamp() > end:
            break
        found.append(int(moment.timestamp()))
    return found


def shown(instants: list[int], name: str) -> list[str]:
    return [datetime.fromtimestamp(instant, ZoneInfo(name)).isoformat() for instant in instants]


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize(
    "expression",
    [
        "0 2 1,15,L * *",
        "30 2 13 * 5",
        "5 4 29 2 *",
        "45 1 * oct 7#1,0L",
    ],
)
def test_ten_years_are_as_cronsim_has_them(expression: str, name: str) -> None:
    assert ours(expression, name, BEGIN, END) == cronsims(expression, name, BEGIN, END)


def one_a_day(hour: int, minute: int, name: str) -> list[int]:
    """The first moment of each day at which the clock has reached that time, by asking for each day."""
    place, found = ZoneInfo(name), []
    for day in range(BEGIN // DAY - 1, END // DAY + 2):
        midnight = datetime(1970, 1, 1) + timedelta(days=day)  # noqa: DTZ001  on the wall
        wall = midnight.replace(hour=hour, minute=minute)
        moment = wall.replace(tzinfo=place).astimezone(UTC)
        if moment.astimezone(place).replace(tzinfo=None) != wall:  # in a gap, so at its end
            moment = next(
                datetime.fromtimestamp(change, UTC)
                for change in changes(name)
                if datetime.fromtimestamp(change, place).replace(tzinfo=None) > wall
            )
        found.append(int(moment.timestamp()))
    return [instant for instant in found if BEGIN < instant <= END]


@pytest.mark.parametrize("name", ZONES)
def test_ten_years_of_days_each_have_the_time_once(name: str) -> None:
    hour, minute = ZONES.index(name) % 4, ZONES.index(name) * 13 % 60
    assert ours(f"{minute} {hour} * * *", name, BEGIN, END) == one_a_day(hour, minute, name)


# In Lord Howe cronsim misses the hour that follows the change of half an hour; Vixie cron's loop does not.
@pytest.mark.parametrize("name", [name for name in ZONES if name != "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    "expression",
    ["30 0 * * *", "0,20,40 1-3 * * *", "*/20 * * * *", "7 */3 * * *", "*/30 1,2 * * *", "40 */50 0-3 * * *"],
)
def test_times_and_rhythms_around_every_change_are_as_cronsim_has_them(expression: str, name: str) -> None:
    for change in changes(name):
        start, end = change - 4 * HOUR, change + 4 * HOUR
        assert ours(expression, name, start, end) == cronsims(expression, name, start, end)


@dataclass(frozen=True)
class Line:
    """A crontab line as Vixie cron keeps it."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    star: bool = False
    days: frozenset[int] = frozenset(range(1, 32))

    def matches(self, wall_minute: int) -> bool:
        if wall_minute % 60 not in self.minutes or wall_minute // 60 % 24 not in self.hours:
            return False
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=wall_minute)).day in self.days


@cache
def wall_minutes(name: str, start: int, end: int) -> list[tuple[int, int]]:
    """Each minute from start to end, with the number of minutes that the clock on the wall shows then."""
    place = ZoneInfo(name)
    return [
        (instant, instant // MINUTE + round(offset_of(instant, place).total_seconds()) // MINUTE)
        for instant in range(start, end + 1, MINUTE)
    ]


def vixie(line: Line, name: str, start: int, end: int) -> list[int]:
    """The minutes in (start, end] at which Vixie cron runs the line, by its virtual time.

    Unlike it, for which a change of more than three hours is a correction of the clock, without a limit.
    """
    (_, virtual), *minutes = wall_minutes(name, start, end)
    found = []
    for instant, clock in minutes:
        if clock > virtual:
            passed = range(virtual + 1, clock + 1)
            runs = line.matches(clock) if line.star else any(map(line.matches, passed))
            virtual = clock
        else:
            runs = line.star and line.matches(clock)
        if runs:
            found.append(instant)
    return found


EVERY_MINUTE, EVERY_HOUR = frozenset(range(60)), frozenset(range(24))
LINES = [
    Line("30 2 * * *", frozenset({30}), frozenset({2})),
    Line("0 0 * * *", frozenset({0}), frozenset({0})),
    Line("15,45 0-3 * * *", frozenset({15, 45}), frozenset({0, 1, 2, 3})),
    Line("0-59 1-2 * * *", EVERY_MINUTE, frozenset({1, 2})),
    Line("*/25 * * * *", frozenset({0, 25, 50}), EVERY_HOUR, star=True),
    Line("*/30 2 * * *", frozenset({0, 30}), frozenset({2}), star=True),
    Line("* 1 */2 * *", EVERY_MINUTE, frozenset({1}), star=True, days=frozenset(range(1, 32, 2))),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.text)
@pytest.mark.parametrize("name", ZONES)
def test_every_change_of_clocks_is_as_vixie_cron_has_it(line: Line, name: str) -> None:
    for change in changes(name):
        start, end = change - 3 * HOUR, change + 3 * HOUR
        assert shown(ours(line.text, name, start, end), name) == shown(vixie(line, name, start, end), name)


@st.composite
def lines(draw: st.DrawFn) -> Line:
    """Any line with a list or a star for its minutes, hours and days of the month."""

    def field(first: int, last: int) -> tuple[str, frozenset[int]]:
        step = draw(st.integers(0, last - first))
        if step:
            return f"*/{step}", frozenset(range(first, last + 1, step))
        numbers = draw(st.sets(st.integers(first, last), min_size=1))
        return ",".join(map(str, numbers)), frozenset(numbers)

    minute, hour, day = field(0, 59), field(0, 23), field(1, 31)
    star = "*" in minute[0] + hour[0]
    return Line(f"{minute[0]} {hour[0]} {day[0]} * *", minute[1], hour[1], star=star, days=day[1])


@given(lines(), st.data())
@settings(max_examples=200, deadline=None)
def test_any_line_at_any_change_is_as_vixie_cron_has_it(line: Line, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in ZONES if changes(name)]))
    change = data.draw(st.sampled_from(changes(name)))
    start, end = change - 3 * HOUR, change + 3 * HOUR
    assert shown(ours(line.text, name, start, end), name) == shown(vixie(line, name, start, end), name)


def test_the_ten_years_have_changes_of_every_kind() -> None:
    sizes = {
        (offset_of(change, ZoneInfo(name)) - offset_of(change - 1, ZoneInfo(name))) // timedelta(minutes=1)
        for name in ZONES
        for change in changes(name)
    }
    assert sizes == {-120, -60, -30, 30, 60, 120, 1440}
    assert sum(len(changes(name)) for name in ZONES) > 300

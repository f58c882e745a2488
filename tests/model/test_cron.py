"""Cron expressions: what is accepted, which days they name, and what happens when clocks are changed."""

import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import cron as module
from holdfast.model.cron import Cron, cron, zone
from holdfast.model.cron_fields import CronFields, parse_cron
from holdfast.model.errors import ConfigurationError

SECOND = 1_000_000

EXPRESSIONS = [
    "0 3 * * *",
    "*/5 * * * *",
    "15,45 2 * * mon-fri",
    "0 0 29 2 *",
    "30 2 L * *",
    "0 0 13 * fri",
    "*/10 * * * * *",
    "0 30 2 * * sun",
    "59 59 23 31 12 ?",
]
PLACES = ["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia"]


def micros(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND


def coming(expression: str, tz: str, after: str, count: int) -> list[str]:
    """The next due times as ISO texts in that zone; `after` is a wall-clock time in it."""
    place, recurrence = ZoneInfo(tz), cron(expression, tz=tz)
    due: int | None = micros(datetime.fromisoformat(after).replace(tzinfo=place))
    found = []
    for _ in range(count):
        assert due is not None
        due = recurrence.next_after(due)
        assert due is not None
        found.append(datetime.fromtimestamp(due // SECOND, place).isoformat())
    return found


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("0 0 1 jan *", "0 0 1 1 *"),
        ("0 0 * MAR-May *", "0 0 * 3-5 *"),
        ("0 0 * * sun", "0 0 * * 0"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 * * mon-FRI", "0 0 * * 1-5"),
        ("0 0 ? * mon", "0 0 * * mon"),
        ("0 0 1 * ?", "0 0 1 * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("10-30/10 0 * * *", "10,20,30 0 * * *"),
        ("0 0 3 * * *", "0 3 * * *"),
        (" 0\t3  * * * ", "0 3 * * *"),
        ("0,0,0 3,3 * * *", "0 3 * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_there_are_several_ways_to_write_the_same(written: str, plain: str) -> None:
    assert parse_cron(written) == parse_cron(plain)


@pytest.mark.parametrize(
    ("expression", "field", "fault"),
    [
        ("60 * * * *", "minute", "'60' is out of range; allowed are 0 to 59"),
        ("* 24 * * *", "hour", "'24' is out of range; allowed are 0 to 23"),
        ("* * 0 * *", "day", "'0' is out of range; allowed are 1 to 31"),
        ("* * 32 * *", "day", "'32' is out of range"),
        ("* * * 13 *", "month", "'13' is out of range; allowed are 1 to 12 or jan to dec"),
        ("* * * * 8", "weekday", "'8' is out of range; allowed are 0 to 7 or sun to sat"),
        ("60 * * * * *", "second", "'60' is out of range"),
        ("* * * * monday", "weekday", "'monday' is not a number or name"),
        ("* * * mon *", "month", "'mon' is not a number or name"),
        ("x * * * *", "minute", "'x' is not a number"),
        ("-5 * * * *", "minute", "'' is not a number"),
        ("1, * * * *", "minute", "'' is not a number"),
        ("? * * * *", "minute", "'?' is not a number"),
        ("1.5 * * * *", "minute", "'1.5' is not a number"),
        ("\u0661 * * * *", "minute", r"'\u0661' is not a number"),
        ("*/0 * * * *", "minute", "needs a whole number from 1 up after its /"),
        ("*/ * * * *", "minute", "needs a whole number from 1 up after its /"),
        ("*/90 * * * *", "minute", "use every(...) for a longer interval"),
        ("* 22-2 * * *", "hour", "write it as two, such as 22-23,0-2"),
        ("* * L-3 * *", "day", "is not a number"),
        ("* * * * L", "weekday", "is not a number or name"),
        ("* * * * mon#6", "weekday", "needs a number from 1 to 5 after its #"),
        ("0 0 30 2 *", "day", "never happens: no month that it names has such a day"),
        ("0 0 31 4,6,9,11 *", "day", "never happens"),
        ("0 0 */31 2 mon#5", "day", "never happens"),
    ],
)
def test_a_fault_is_told_with_its_field_and_what_is_allowed(expression: str, field: str, fault: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(fault)) as raised:
        cron(expression)
    assert raised.value.setting == f"cron.{field}"


def test_what_a_time_zone_always_skips_is_refused_and_what_it_skips_at_times_is_not() -> None:
    with pytest.raises(ConfigurationError, match="never happens in Europe/Berlin: clocks there skip"):
        cron("* 2 * 3 sunL", tz="Europe/Berlin")
    assert cron("* 2 * 3 sunL").next_after(0) is not None
    assert cron("30 2 * 3 sunL", tz="Europe/Berlin").next_after(0) is not None, "once, right after the gap"


@pytest.mark.parametrize("expression", ["", "* * * *", "* * * * * * *", "@reboot", "@every 5m", "* " * 200])
def test_what_has_not_the_shape_of_an_expression_is_refused(expression: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        cron(expression)
    assert raised.value.setting == "cron"


@pytest.mark.parametrize(
    "tz", ["", "Europe", "Mars/Olympus", "../../etc/passwd", "a\x00b", "\ud800", "x" * 999]
)
def test_an_unknown_time_zone_is_refused_with_an_example(tz: str) -> None:
    with pytest.raises(
        ConfigurationError, match="is not a known time zone; use a name such as UTC"
    ) as raised:
        cron("@daily", tz=tz)
    assert raised.value.setting == "cron.tz"
    assert str(raised.value).isascii()


def test_a_machine_without_time_zone_data_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_timezones", set)
    with pytest.raises(ConfigurationError, match="install the system's tzdata or the package tzdata"):
        cron("@daily", tz="Europe/Nowhere")
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    assert zone("UTC") is UTC


@given(st.text(max_size=60) | st.text("0123456789*/,-#?L @monjanW", max_size=30))
def test_any_text_is_an_expression_or_one_short_plain_line_of_refusal(text: str) -> None:
    try:
        due = cron(text).next_after(0)
    except ConfigurationError as error:
        message = str(error)
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 300
    else:
        assert due is not None


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 13 * fri", [2, 9, 13, 16, 23, 30]),
        ("0 0 13 * *", [13]),
        ("0 0 * * fri", [2, 9, 16, 23, 30]),
        ("0 0 */10 * fri", []),
        ("0 0 */5 * fri", [16]),
        ("0 0 1-31/5 * fri", [1, 2, 6, 9, 11, 16, 21, 23, 26, 30, 31]),
        ("0 0 13 * */5", []),
        ("0 0 1,L * *", [1, 31]),
        ("0 0 L * fri", [2, 9, 16, 23, 30, 31]),
        ("0 0 * * fri#2", [9]),
        ("0 0 * * fri#5,mon#5", [30]),
        ("0 0 * * friL,6L,7l", [25, 30, 31]),
        ("0 0 * * tue,wedL", [6, 13, 20, 27, 28]),
    ],
)
def test_a_day_needs_both_of_its_fields_if_one_begins_with_a_star_else_one(
    expression: str, days: list[int]
) -> None:
    found = parse_cron(expression).days_of(2026, 1)
    assert [day for day in range(32) if found >> day & 1] == days


def test_a_leap_day_may_be_eight_years_away_and_a_fifth_monday_of_february_forty() -> None:
    assert coming("0 0 29 2 *", "UTC", "2096-02-29", 2) == [
        "2104-02-29T00:00:00+00:00",
        "2108-02-29T00:00:00+00:00",
    ]
    assert coming("0 0 * feb mon#5", "UTC", "2072-02-29", 1) == ["2112-02-29T00:00:00+00:00"]


def test_the_calendar_ends() -> None:
    assert cron("0 0 29 2 *").next_after(micros(datetime(9989, 1, 1, tzinfo=UTC))) is None
    assert cron("@daily").next_after(micros(datetime(9990, 1, 1, tzinfo=UTC))) is None
    assert cron("@daily").next_after(10**30) is None


DST = [
    # A time of day in the gap: once, right after it.
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-29 03:00 +02:00, 03-30 02:30 +02:00"),
    ("0 2 * * *", "America/New_York", "2026-03-07T12:00", "03-08 03:00 -04:00, 03-09 02:00 -04:00"),
    ("30 2 * * *", "Australia/Sydney", "2026-10-03T12:00", "10-04 03:00 +11:00, 10-05 02:30 +11:00"),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "10-04 02:30 +11:00, 10-05 02:15 +11:00"),
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "11-04 01:00 -02:00, 11-05 00:00 -02:00"),
    ("0 0 * * *", "Africa/Cairo", "2024-04-25T12:00", "04-26 01:00 +03:00, 04-27 00:00 +03:00"),
    ("30 0 * * *", "Asia/Beirut", "2024-03-30T12:00", "03-31 01:00 +03:00, 04-01 00:30 +03:00"),
    ("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00", "12-31 00:00 +14:00, 12-31 09:00 +14:00"),
    ("0 0 30 12 *", "Pacific/Apia", "2011-12-29T12:00", "12-31 00:00 +14:00, 12-30 00:00 +14:00"),
    # Several in the gap, or one at its end: still once.
    ("0,20,40 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-29 03:00 +02:00, 03-30 02:00 +02:00"),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-29 03:00 +02:00, 03-30 02:00 +02:00"),
    # The hour before and after the gap are as always.
    ("59 1 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-29 01:59 +01:00, 03-30 01:59 +02:00"),
    ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-29 03:00 +02:00, 03-30 03:00 +02:00"),
    # A time of day that is repeated: the first time only.
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "10-25 02:30 +02:00, 10-26 02:30 +01:00"),
    ("30 2 * * *", "Australia/Sydney", "2026-04-04T12:00", "04-05 02:30 +11:00, 04-06 02:30 +10:00"),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", "04-05 01:45 +11:00, 04-06 01:45 +10:30"),
    ("30 23 * * *", "America/Santiago", "2026-04-04T12:00", "04-04 23:30 -03:00, 04-05 23:30 -04:00"),
    ("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00", "10-25 03:00 +01:00, 10-26 03:00 +01:00"),
    # A rhythm goes by the wall: nothing in the gap, and all of the repetition.
    ("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-30 02:00 +02:00, 03-30 02:20 +02:00"),
    ("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:00", "03-29 01:30 +01:00, 03-29 03:00 +02:00"),
    ("0 */2 * * *", "Europe/Berlin", "2026-03-29T00:00", "03-29 04:00 +02:00, 03-29 06:00 +02:00"),
    ("0 * * * *", "Europe/Berlin", "2026-10-25T01:00", "10-25 02:00 +02:00, 10-25 02:00 +01:00"),
    ("* 2 * * *", "Europe/Berlin", "2026-10-25T02:58", "10-25 02:59 +02:00, 10-25 02:00 +01:00"),
    ("0 */2 25 10 *", "Europe/Berlin", "2026-10-25T00:00", "10-25 02:00 +02:00, 10-25 02:00 +01:00"),
    ("*/20 * * * *", "Australia/Lord_Howe", "2026-04-05T01:40", "04-05 01:40 +10:30, 04-05 02:00 +10:30"),
    # Seconds follow the same rules, and a star among them is a rhythm too.
    ("15 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-29 03:00 +02:00, 03-30 02:30:15 +02:00"),
    ("15 30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "10-25 02:30:15 +02:00, 10-26 02:30:15 +01:00"),
    ("*/30 59 2 * * *", "Europe/Berlin", "2026-10-25T02:59", "10-25 02:59:30 +02:00, 10-25 02:59 +01:00"),
    ("*/30 59 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "03-30 02:59 +02:00, 03-30 02:59:30 +02:00"),
]


@pytest.mark.parametrize(("expression", "tz", "after", "expected"), DST)
def test_a_change_of_clocks_follows_the_rules_of_vixie_cron(
    expression: str, tz: str, after: str, expected: str
) -> None:
    found = [
        f"{moment[5:10]} {moment[11:19].removesuffix(':00')} {moment[19:]}"
        for moment in coming(expression, tz, after, 2)
    ]
    assert ", ".join(found) == expected


def test_a_repeated_time_is_not_fired_again_by_one_who_looks_in_between() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=berlin)
    due = cron("30 2 * * *", tz="Europe/Berlin").next_after(micros(second_pass))
    assert due == micros(datetime(2026, 10, 26, 2, 30, tzinfo=berlin))
    due = cron("0-59 0-59 2,3 * * *", tz="Europe/Berlin").next_after(micros(second_pass))
    assert due == micros(datetime(2026, 10, 25, 3, 0, tzinfo=berlin))


instants = st.integers(micros(datetime(2005, 1, 1, tzinfo=UTC)), micros(datetime(2060, 1, 1, tzinfo=UTC)))
recurrences = st.builds(cron, st.sampled_from(EXPRESSIONS), tz=st.sampled_from(PLACES))


@given(recurrences, instants, st.integers(0, 10**13))
def test_the_next_due_time_is_later_and_a_later_question_has_no_earlier_answer(
    recurrence: Cron, instant: int, later: int
) -> None:
    due, due_later = recurrence.next_after(instant), recurrence.next_after(instant + later)
    assert due is not None
    assert due_later is not None
    assert instant < due <= due_later
    assert due % SECOND == 0


@given(recurrences, instants, st.floats(0, 1, exclude_max=True))
def test_nothing_lies_between_an_instant_and_its_next_due_time(
    recurrence: Cron, instant: int, share: float
) -> None:
    due = recurrence.next_after(instant)
    assert due is not None
    between = instant + int((due - instant) * share)
    assert recurrence.next_after(between) == due


def matches(fields: CronFields, wall: datetime) -> bool:
    return (
        bool(fields.seconds >> wall.second & fields.minutes >> wall.minute & fields.hours >> wall.hour & 1)
        and bool(fields.months >> wall.month & 1)
        and bool(fields.days_of(wall.year, wall.month) >> wall.day & 1)
    )


@given(recurrences, instants)
def test_a_due_time_shows_on_the_wall_or_ends_a_gap(recurrence: Cron, instant: int) -> None:
    due = recurrence.next_after(instant)
    assert due is not None
    place, fields = zone(recurrence.tz), parse_cron(recurrence.expression)
    wall, before = (datetime.fromtimestamp(due // SECOND - ago, place) for ago in (0, 1))
    gap = (wall.utcoffset() or timedelta()) - (before.utcoffset() or timedelta())
    if not matches(fields, wall):
        assert not fields.interval
        assert gap > timedelta()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_walking_forward_never_stands_still(expression: str) -> None:
    recurrence, due = cron(expression, tz="Europe/Berlin"), micros(datetime(2026, 3, 28, tzinfo=UTC))
    walked = [due]
    for _ in range(300):
        found = recurrence.next_after(walked[-1])
        assert found is not None
        walked.append(found)
    assert all(earlier < later for earlier, later in pairwise(walked))

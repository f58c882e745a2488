"""Intervals, single times, and what has passed of any recurrence."""

import math
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.cron import Cron, cron
from holdfast.model.errors import ConfigurationError
from holdfast.model.recurrence import (
    MOST_COUNTED,
    Anchor,
    At,
    Every,
    Recurrence,
    at,
    check_recurrence,
    due_after_run,
    every,
    first_due,
    passed,
    upcoming,
    waits_for_run,
)

SECOND = 1_000_000
HOUR = 3_600 * SECOND
NOW = 1_790_000_000_123_456

instants = st.integers(0, 4 * 10**15)
intervals = st.integers(SECOND, 10**13)
recurrences = st.one_of(
    st.builds(Every, intervals, st.just("rate"), st.none() | instants),
    st.builds(Every, intervals, st.sampled_from(["start", "end"])),
    st.builds(At, instants),
    st.builds(
        Cron,
        st.sampled_from(["0 3 * * *", "*/10 * * * *", "0 0 L 2 *", "5 */20 * * * mon"]),
        st.sampled_from(["UTC", "Europe/Berlin", "America/Santiago"]),
    ),
)


def test_an_interval_is_the_sum_of_what_is_given() -> None:
    assert every(minutes=10) == Every(600 * SECOND, "rate", None)
    assert every(90) == every(timedelta(minutes=1.5)) == every(minutes=1, seconds=30)
    assert every(weeks=1, days=1, hours=1) == every(hours=193)
    assert every(minutes=1 / 3) == every(seconds=20)
    assert every(seconds=1.5).interval == 1_500_000


@pytest.mark.parametrize("anchor", ["rate", "start", "end"])
def test_an_anchor_says_what_an_interval_counts_from(anchor: Anchor) -> None:
    assert every(5, anchor=anchor).anchor == anchor
    assert waits_for_run(every(5, anchor=anchor)) == (anchor != "rate")


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({}, "every"),
        ({"seconds": 0.5}, "every"),
        ({"weeks": 5_300}, "every.weeks"),
        ({"days": 36_600, "hours": 2}, "every"),
        ({"minutes": -1}, "every.minutes"),
        ({"minutes": math.nan}, "every.minutes"),
        ({"hours": math.inf}, "every.hours"),
        ({"hours": "3"}, "every.hours"),
        ({"interval": None}, "every.interval"),
        ({"seconds": 5, "anchor": "fixed"}, "every.anchor"),
        ({"seconds": 5, "start": datetime(2026, 1, 1)}, "every.start"),  # noqa: DTZ001  that is the fault
        ({"seconds": 5, "start": "now"}, "every.start"),
        ({"seconds": 5, "start": datetime(2026, 1, 1, tzinfo=UTC), "anchor": "end"}, "every.start"),
    ],
)
def test_an_interval_that_cannot_be_is_refused_by_its_part(arguments: dict[str, float], setting: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        every(**arguments)  # type: ignore[arg-type]
    assert raised.value.setting == setting


def test_a_single_time_is_a_moment_with_a_time_zone() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert at(noon) == At(round(noon.timestamp()) * SECOND)
    for wrong in (datetime(2026, 1, 1), "2026-01-01", None):  # noqa: DTZ001
        with pytest.raises(ConfigurationError) as raised:
            at(wrong)  # type: ignore[arg-type]
        assert raised.value.setting == "at"


@given(intervals, instants, st.integers(0, 10**4), st.floats(0, 1, exclude_max=True))
def test_due_times_by_rate_are_the_start_and_so_many_intervals(
    interval: int, origin: int, step: int, share: float
) -> None:
    asked = origin + step * interval + int(interval * share)
    assert Every(interval).next_after(asked, origin) == origin + (step + 1) * interval


@given(intervals, instants, instants)
def test_a_start_that_is_given_is_itself_a_due_time(interval: int, start: int, instant: int) -> None:
    due = Every(interval, "rate", start).next_after(instant, origin=instant)
    assert due is not None
    assert due > instant
    assert due >= start
    assert (due - start) % interval == 0
    assert due == start or due - interval <= instant


def test_a_start_in_the_past_sets_the_beat() -> None:
    hourly = every(hours=1, start=datetime(2020, 1, 1, 0, 30, tzinfo=UTC))
    noon = round(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()) * SECOND
    assert first_due(hourly, noon, origin=noon) == noon + HOUR // 2


def test_the_first_due_time_is_in_the_future_except_for_a_single_time() -> None:
    assert first_due(every(60), NOW, NOW) == NOW + 60 * SECOND
    assert first_due(every(60, anchor="start"), NOW, NOW) == NOW + 60 * SECOND
    assert first_due(every(60, anchor="end"), NOW, NOW) == NOW + 60 * SECOND
    assert every(60).next_after(NOW - 5, NOW) == NOW + 60 * SECOND
    assert first_due(At(NOW - 5), NOW, NOW) == NOW - 5
    assert At(NOW).next_after(NOW, NOW) is None
    assert At(NOW).next_after(NOW - 1, NOW) == NOW


def test_after_a_run_an_interval_counts_from_its_start_or_its_end() -> None:
    assert due_after_run(every(60, anchor="start"), started=NOW, ended=NOW + HOUR) == NOW + 60 * SECOND
    assert due_after_run(every(60, anchor="end"), started=NOW, ended=NOW + HOUR) == NOW + HOUR + 60 * SECOND
    assert due_after_run(every(60, anchor="start"), started=None, ended=NOW) == NOW + 60 * SECOND
    assert due_after_run(every(60), started=NOW, ended=NOW) is None
    assert due_after_run(cron("@daily"), started=NOW, ended=NOW) is None


def test_what_comes_is_told_as_far_as_it_is_known() -> None:
    assert list(upcoming(At(NOW), NOW, NOW)) == [NOW]
    assert list(upcoming(every(60, anchor="end"), NOW, NOW)) == [NOW]
    assert list(upcoming(every(60), None, NOW)) == []
    daily = list(islice(upcoming(cron("@daily"), 86_400 * SECOND, 0), 3))
    assert daily == [86_400 * SECOND * day for day in (1, 2, 3)]


@given(recurrences, instants, st.integers(0, 10**13), st.integers(1, 20))
def test_what_has_passed_is_all_that_came_before(
    recurrence: Recurrence, origin: int, later: int, keep: int
) -> None:
    due = first_due(recurrence, origin, origin)
    assert due is not None
    now = due + later
    found = passed(recurrence, due, now, origin, keep)
    walked = []
    for known in islice(upcoming(recurrence, due, origin), 3_000):
        if known > now:
            assert found.following == known
            break
        walked.append(known)
    if len(walked) < 3_000:
        assert found.count == len(walked)
        assert list(found.latest) == walked[-keep:]


@pytest.mark.parametrize("expression", ["* * * * * *", "*/5 10-40 1-3 * * mon", "* * * * *"])
@pytest.mark.parametrize("keep", [1, 50])
def test_after_years_of_a_fast_expression_the_latest_are_still_the_latest(expression: str, keep: int) -> None:
    recurrence = cron(expression, tz="Europe/Berlin")
    due, now = recurrence.next_after(NOW), NOW + 4 * 365 * 24 * HOUR
    assert due is not None
    found = passed(recurrence, due, now, NOW, keep)
    assert found.count == MOST_COUNTED
    assert len(found.latest) == keep
    assert list(found.latest) == list(islice(upcoming(recurrence, found.latest[0], NOW), keep))
    assert found.following == recurrence.next_after(found.latest[-1])
    assert found.following is not None
    assert found.latest[-1] <= now < found.following


def test_years_of_an_interval_are_counted_without_walking() -> None:
    found = passed(Every(SECOND), NOW, NOW + 10 * 365 * 24 * HOUR, NOW, keep=2)
    assert found.count == 10 * 365 * 24 * 3_600 + 1
    assert found.latest == (NOW + 10 * 365 * 24 * HOUR - SECOND, NOW + 10 * 365 * 24 * HOUR)


@given(recurrences)
def test_a_recurrence_survives_storing(recurrence: Recurrence) -> None:
    assert msgspec.json.decode(msgspec.json.encode(recurrence), type=Recurrence) == recurrence


def test_a_text_is_not_a_recurrence() -> None:
    with pytest.raises(ConfigurationError, match=r"'@daily' is not made by every\(\.\.\.\), cron"):
        check_recurrence("@daily")


@pytest.mark.parametrize("anchor", ["rate", "start", "end"])
def test_an_interval_ends_with_the_calendar(anchor: Anchor) -> None:
    late = datetime(9998, 1, 1, tzinfo=UTC)
    rule = every(seconds=3e9, start=late) if anchor == "rate" else every(seconds=3e9, anchor=anchor)
    due = at(late).instant
    assert rule.next_after(due, 0) is None
    assert list(upcoming(rule, due, 0)) == [due]
    assert due_after_run(rule, due, due) is None
    assert passed(rule, due, due, 0, 1).following is None
    with pytest.raises(ConfigurationError, match="years 1 to 9999"):
        at(datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))))

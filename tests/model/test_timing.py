"""Durations, instants, and the rules that keep a lease safe."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.timing import FAR, FIRST, LAST, SECOND, Timing, instant, micros, moment


def test_a_duration_is_seconds_or_a_timedelta() -> None:
    assert micros(1.5, "delay") == micros(timedelta(seconds=1.5), "delay") == 1_500_000
    assert micros(0, "delay") == 0
    assert micros(0.000_000_4, "delay") == 0


@given(st.integers(0, FAR))
def test_whole_microseconds_are_kept_to_the_millisecond_even_after_a_century(amount: int) -> None:
    assert abs(micros(amount / SECOND, "delay") - amount) <= 1_000


@pytest.mark.parametrize(
    "value",
    [-0.001, math.nan, math.inf, -math.inf, 1e18, 10**400, timedelta.max, timedelta(-1), "soon", None],
)
def test_what_is_no_duration_is_refused_by_the_name_of_its_field(value: Any) -> None:
    with pytest.raises(InvalidJob, match="delay") as raised:
        micros(value, "delay")
    assert raised.value.field == "delay"


def test_an_instant_needs_a_time_zone() -> None:
    with pytest.raises(InvalidJob, match="time zone"):
        instant(datetime(2030, 1, 1), "at")  # noqa: DTZ001


def test_an_instant_is_the_same_in_every_time_zone() -> None:
    here = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert instant(here, "at") == instant(datetime(2030, 1, 1, 10, tzinfo=UTC), "at")


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_comes_back_to_the_microsecond(value: datetime) -> None:
    assert moment(instant(value, "at")) == value


@pytest.mark.parametrize(
    "value",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ],
)
def test_an_instant_outside_the_calendar_in_utc_is_refused(value: datetime) -> None:
    with pytest.raises(InvalidJob, match="years 1 to 9999") as raised:
        instant(value, "at")
    assert raised.value.field == "at"


@pytest.mark.parametrize("stored", [LAST + 1, 2**63 - 1, 10**30])
def test_a_stored_instant_outside_the_calendar_is_shown_as_its_end(stored: int) -> None:
    assert moment(stored) == moment(LAST) == datetime.max.replace(tzinfo=UTC)
    assert moment(-stored) == moment(FIRST) == datetime.min.replace(tzinfo=UTC)


@given(st.floats(0.1, 86_400))
def test_what_is_not_given_scales_with_the_lease_and_is_safe(lease: float) -> None:
    timing = Timing.from_seconds(lease)
    assert 3 * timing.heartbeat + timing.call_timeout + timing.margin < timing.lease


@given(st.floats(0.1, 600), st.floats(0.01, 600), st.floats(0.01, 600))
def test_timing_is_safe_or_refused(lease: float, heartbeat: float, call_timeout: float) -> None:
    if 3 * heartbeat + call_timeout + min(1, lease / 20) >= lease:
        with pytest.raises(ConfigurationError, match="lease_seconds"):
            Timing.from_seconds(lease, heartbeat, call_timeout)
    else:
        timing = Timing.from_seconds(lease, heartbeat, call_timeout)
        rounding = 5
        assert 3 * timing.heartbeat + timing.call_timeout + timing.margin < timing.lease + rounding


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ((0.0,), "lease_seconds"),
        ((math.nan,), "lease_seconds"),
        ((1e6,), "lease_seconds"),
        ((0.05,), "lease_seconds"),
        ((60.0, 0.0), "heartbeat_seconds"),
        ((60.0, 5.0, -1.0), "call_timeout_seconds"),
        ((60.0, 5.0, math.inf), "call_timeout_seconds"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(arguments: tuple[float, ...], setting: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Timing.from_seconds(*arguments)
    assert raised.value.setting == setting
    assert setting in str(raised.value)


def test_the_refusal_says_what_to_change() -> None:
    with pytest.raises(ConfigurationError, match="Raise lease_seconds, or lower heartbeat_seconds"):
        Timing.from_seconds(30, 10, 1)

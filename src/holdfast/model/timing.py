"""Durations and the rules that keep a lease safe. All inner arithmetic is in whole microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

import msgspec

from holdfast.model.errors import ConfigurationError, InvalidJob

Seconds: TypeAlias = float | timedelta

SECOND = 1_000_000
FAR = 100 * 366 * 86_400 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
FIRST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
LAST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
"""The ends of the calendar in UTC, as instants."""


def seconds(value: Seconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def micros(value: Seconds, field: str) -> int:
    """The duration in microseconds; refuses what is negative, not finite, or beyond a hundred years."""
    try:
        amount = seconds(value) * SECOND
    except (OverflowError, TypeError, ValueError):
        amount = -1
    if not 0 <= amount <= FAR:
        raise InvalidJob(field, f"{ascii(value)[:60]} is not a duration between 0 and 100 years")
    return round(amount)


def instant(value: datetime, field: str) -> int:
    """The moment in microseconds since 1970; refuses one without a time zone, or outside UTC's calendar."""
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidJob(field, f"{value!r} has no time zone; use for instance datetime.now(UTC)")
    found = (value - EPOCH) // _MICROSECOND
    if not FIRST <= found <= LAST:
        raise InvalidJob(field, f"{value.isoformat()} is not within the years 1 to 9999 in UTC")
    return found


@lru_cache(maxsize=256)
def moment(micros_since_1970: int) -> datetime:
    """The instant as a datetime within the calendar; jobs that were added together share theirs."""
    return EPOCH + timedelta(microseconds=min(max(micros_since_1970, FIRST), LAST))


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease lasts and how it is kept, in microseconds."""

    lease: int
    heartbeat: int
    call_timeout: int
    margin: int

    @classmethod
    def from_seconds(
        cls, lease: float, heartbeat: float | None = None, call_timeout: float | None = None
    ) -> Timing:
        """Timing for a lease; what is not given scales with it. Refuses what could outlive the lease."""
        heartbeat = lease / 4 if heartbeat is None else heartbeat
        call_timeout = min(10.0, lease / 8) if call_timeout is None else call_timeout
        margin = min(1.0, lease / 20)
        for setting, value, least in (
            ("lease_seconds", lease, 0.1),
            ("heartbeat_seconds", heartbeat, 0.01),
            ("call_timeout_seconds", call_timeout, 0.01),
        ):
            if not least <= value <= 86_400:
                raise ConfigurationError(f"{value} is not between {least} and 86400 seconds", setting=setting)
        if 3 * heartbeat + call_timeout + margin >= lease:
            raise ConfigurationError(
                f"a lease of {lease:g} s is too short: three heartbeats of {heartbeat:g} s, a call "
                f"timeout of {call_timeout:g} s and a margin of {margin:g} s must end before it does. "
                "Raise lease_seconds, or lower heartbeat_seconds or call_timeout_seconds",
                setting="lease_seconds",
            )
        return cls(
            lease=round(lease * SECOND),
            heartbeat=round(heartbeat * SECOND),
            call_timeout=round(call_timeout * SECOND),
            margin=round(margin * SECOND),
        )

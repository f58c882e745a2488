"""Limits as users write them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.flow import LimitRecord, Scope
from holdfast.model.timing import SECOND, Seconds, micros, moment

MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How many jobs may run at once, and how many may begin in each period.

    They begin evenly, `per` / `rate` apart; after a pause, up to `burst` of them at once. So within any time
    `t` there are never more than `burst + rate * t / per`.
    """

    concurrency: int | None = None
    rate: int | None = None
    per: Seconds = 1.0
    burst: int = 1

    def __post_init__(self) -> None:
        for name in ("concurrency", "rate", "burst"):
            value: object = getattr(self, name)
            if value is None and name != "burst":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ConfigurationError(
                    f"{value!r} is not a whole number of at least 1", setting=f"limit.{name}"
                )
        if not self.period:
            raise ConfigurationError(f"{self.per!r} is not a time above 0", setting="limit.per")
        if self.rate is None and (self.burst != 1 or self.per != 1.0):
            raise ConfigurationError("per and burst belong to a rate; give one", setting="limit.rate")
        if self.concurrency is None and self.rate is None:
            raise ConfigurationError("give concurrency, rate, or both", setting="limit")

    @property
    def period(self) -> int:
        try:
            return micros(self.per, "per")
        except InvalidJob as error:
            raise ConfigurationError(str(error), setting="limit.per") from None

    def record(self, scope: Scope, name: str, *, declared: bool = False) -> LimitRecord:
        """The limit of something, as stored."""
        return LimitRecord(
            scope=scope,
            name=name,
            concurrency=self.concurrency,
            rate=self.rate,
            period=self.period if self.rate is not None else 0,
            burst=self.burst,
            declared=declared,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInfo:
    """A limit as it stands: what it applies to, what it says, whether it was written in code."""

    scope: Scope
    name: str
    concurrency: int | None
    rate: int | None
    per: float | None
    burst: int
    paused: bool
    weight: float
    declared: bool
    running: int | None
    waiting: int | None
    paused_since: datetime | None = None

    @classmethod
    def of(cls, record: LimitRecord, running: int | None, waiting: int | None) -> LimitInfo:
        return cls(
            scope=record.scope,
            name=record.name,
            concurrency=record.concurrency,
            rate=record.rate,
            per=record.period / SECOND if record.rate is not None else None,
            burst=record.burst,
            paused=record.paused,
            weight=record.weight,
            declared=record.declared and (record.concurrency is not None or record.rate is not None),
            running=running,
            waiting=waiting,
            paused_since=None if record.paused_since is None else moment(record.paused_since),
        )


def check_weight(value: object) -> float:
    """A weight, or ConfigurationError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 1_000_000:
        raise ConfigurationError(f"{value!r} is not a number between 0.001 and 1000000", setting="weight")
    if not math.isfinite(value):
        raise ConfigurationError(f"{value!r} is not a number", setting="weight")
    return float(value)


def said(concurrency: int | None, rate: int | None, per: float | None, burst: int) -> str:
    """What a limit allows, in words; nothing if it has only a weight."""
    parts: list[str] = []
    if concurrency is not None:
        parts.append(f"{concurrency} running at once")
    if rate is not None:
        bursts = f" (after a pause {burst} at once)" if burst > 1 else ""
        parts.append(f"{rate} begun in {per:g} s{bursts}")
    return " and ".join(parts)

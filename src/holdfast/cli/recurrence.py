"""Recurrences on the command line: how they are given, and how they are shown."""

from __future__ import annotations

import re
from datetime import datetime

import click

from holdfast.cli.errors import WrongUse
from holdfast.cli.output import when
from holdfast.model.cron import Cron, cron
from holdfast.model.recurrence import Anchor, At, Every, Recurrence, at, every
from holdfast.model.timing import SECOND, moment

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER = r"\d{1,12}(?:\.\d{1,6})?"
_PARTS = re.compile(rf"({_NUMBER})([wdhms])")
_DURATION = re.compile(rf"{_NUMBER}|(?:{_NUMBER}[wdhms])+")
_ANCHORED = {"rate": "", "start": " from its start", "end": " from its end"}


def duration(text: str) -> float:
    """Seconds, from `90`, or with units, from `10m` or `1h30m`."""
    shown = text.strip().lower()
    if not _DURATION.fullmatch(shown):
        raise click.BadParameter(f"{text!r} is not a duration; write for instance 90, 10m or 1h30m.")
    parts: list[tuple[str, str]] = _PARTS.findall(shown)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(shown)


def point_in_time(text: str) -> datetime:
    """A date and a time with its time zone, from ISO 8601."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write for instance 2026-03-01T09:00:00Z."
        ) from None
    if found.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone; add Z for UTC, or an offset such as +01:00.")
    return found


def make_recurrence(
    *,
    interval: float | None,
    expression: str | None,
    instant: datetime | None,
    tz: str | None,
    anchor: Anchor | None,
    start: datetime | None,
) -> Recurrence:
    """What the options of a command say."""
    given = [
        name
        for name, value in (("--every", interval), ("--cron", expression), ("--at", instant))
        if value is not None
    ]
    if len(given) != 1:
        raise WrongUse("say when by one of --every, --cron and --at.")
    for name, value, goes_with in (
        ("--tz", tz, "--cron"),
        ("--anchor", anchor, "--every"),
        ("--start", start, "--every"),
    ):
        if value is not None and given != [goes_with]:
            raise WrongUse(f"{name} goes with {goes_with} only.")
    if expression is not None:
        return cron(expression, tz=tz or "UTC")
    if instant is not None:
        return at(instant)
    return every(interval or 0, anchor=anchor or "rate", start=start)


def describe(recurrence: Recurrence) -> str:
    """A recurrence in the words of the options that make it."""
    match recurrence:
        case Every(interval, anchor):
            return f"every {_duration(interval)}{_ANCHORED[anchor]}"
        case Cron(expression, tz):
            return f"{expression} ({tz})"
        case At(instant):
            return f"at {when(moment(instant))}"


def document(recurrence: Recurrence) -> dict[str, object]:
    """A recurrence for programs."""
    match recurrence:
        case Every(interval, anchor, start):
            since = None if start is None else moment(start)
            return {"kind": "every", "seconds": interval / SECOND, "anchor": anchor, "start": since}
        case Cron(expression, tz):
            return {"kind": "cron", "expression": expression, "tz": tz}
        case At(instant):
            return {"kind": "at", "at": moment(instant)}


def _duration(micros: int) -> str:
    text = ""
    left = micros
    for unit in "wdhm":
        count, left = divmod(left, _UNITS[unit] * SECOND)
        text += f"{count}{unit}" if count else ""
    return text + (f"{left / SECOND:.6f}".rstrip("0").rstrip(".") + "s" if left else "")

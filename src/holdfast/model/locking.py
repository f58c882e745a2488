"""The rules of locks: what they may be called, and how long one may be held without renewal."""

from __future__ import annotations

import re

from holdfast.model.errors import InvalidJob, InvalidLock
from holdfast.model.options import optional_micros
from holdfast.model.timing import SECOND, Seconds

DEFAULT_TTL = 30.0
SHORTEST, LONGEST = SECOND // 10, 86_400 * SECOND
LONGEST_PLACE = 10 * SECOND
INTERNAL = "holdfast."
"""What the names of Holdfast's own locks begin with."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/+=-]{0,199}", re.ASCII)


def check_lock_name(value: object) -> str:
    """The name itself, or InvalidLock."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise InvalidLock(
        "name",
        f"{ascii(value)[:60]} is not a valid name; use 1 to 200 ASCII letters, digits and _ . : @ / + = - "
        "(not starting with a sign)",
    )


def is_internal(name: str) -> bool:
    """Whether a lock is one of Holdfast's own: held for as long as a process lives, and waited for so."""
    return name.startswith(INTERNAL)


def check_ttl(value: Seconds) -> int:
    """The time to live in microseconds."""
    try:
        ttl = optional_micros(value, "ttl")
    except InvalidJob:
        ttl = None
    if ttl is None or not SHORTEST <= ttl <= LONGEST:
        raise InvalidLock(
            "ttl", f"{ascii(value)[:60]} is not between 0.1 and 86400 seconds, as a number or a timedelta"
        )
    return ttl


def check_wait(value: Seconds | None) -> int | None:
    """The most to wait in microseconds; None for as long as it takes."""
    try:
        return optional_micros(value, "wait")
    except InvalidJob as error:
        raise InvalidLock("wait", error.problem) from None


def place_of(ttl: int) -> int:
    """How long a place in line is kept for one who does not ask again: at most as long as a lock."""
    return min(ttl, LONGEST_PLACE)

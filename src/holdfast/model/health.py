"""Whether a worker is well: what is seen of it, and what follows for who may restart it or wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Phase = Literal["starting", "serving", "draining", "stopped", "failed"]


class Health(msgspec.Struct, frozen=True):
    """How a worker is. `reasons` say what is wrong, for people; there are none if all is well.

    It is `live` unless only a new process can help, and `ready` while it claims jobs.
    """

    live: bool
    ready: bool
    reasons: tuple[str, ...] = ()


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What is seen of a worker.

    It is `silent` for so many seconds since the store last let it claim, and the store `away` for so many, or
    None. Of its `slots`, `stuck` have attempts that do not end though they were told to.
    """

    phase: Phase
    silent: float = 0.0
    away: float | None = None
    slots: int = 1
    stuck: int = 0


def judge(seen: Vitals, limit: float) -> Health:
    """A store that is away is no reason to restart a worker: it waits, and goes on when the store is back."""
    reasons: list[str] = []
    is_live = True
    if seen.away is not None and seen.away > limit:
        reasons.append(f"the store has not answered for {seen.away:.0f} s")
    elif seen.phase == "serving" and seen.silent > limit and seen.away is None:
        reasons.append(f"nothing could be claimed for {seen.silent:.0f} s: is the event loop blocked?")
        is_live = False
    if seen.stuck >= seen.slots:
        reasons.append(f"all slots ({seen.slots}) are stuck")
        is_live = False
    if seen.phase == "failed":
        is_live = False
    if seen.phase != "serving":
        reasons.append(seen.phase)
    return Health(is_live, not reasons, tuple(reasons))


def all_well(parts: Mapping[str, Health]) -> Health:
    """One for several: as well as the worst of them."""
    reasons = tuple(f"{name}: {reason}" for name, part in parts.items() for reason in part.reasons)
    return Health(
        all(part.live for part in parts.values()), all(part.ready for part in parts.values()), reasons
    )


def any_well(parts: Mapping[str, Health]) -> Health:
    """The same for parts that do without each other: ready as long as one of them is."""
    whole = all_well(parts)
    return msgspec.structs.replace(whole, ready=any(part.ready for part in parts.values()))

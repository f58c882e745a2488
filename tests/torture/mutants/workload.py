"""More of what a guard is there for, so that a brief campaign has enough of it."""

from __future__ import annotations

import random
from typing import Any

from holdfast.torture.programs import mix
from holdfast.torture.settings import LEASE

OUTLIVING = 0.2
DOOMED = 0.7


def outlive_leases() -> None:
    """Many jobs block a thread for longer than a lease: they report late, perhaps beside their successors."""
    more: Any = mix._more

    def longer(task: str, draw: random.Random) -> tuple[Any, ...]:
        return (draw.uniform(2 * LEASE, 4 * LEASE),) if task == "in_thread" else more(task, draw)

    mix.SHARES["in_thread"] = OUTLIVING
    mix._more = longer


def doom_many() -> None:
    """Many jobs end among the dead letters, from where they can be replayed."""
    mix.SHARES["doomed"] = DOOMED
    mix.BOUNDED["long"] = (0.0, 0)

"""More of what a guard is there for: work that goes on, unheeding, after its lease is lost."""

from __future__ import annotations

import random
from typing import Any

from holdfast.torture.programs import mix
from holdfast.torture.settings import LEASE

SHARE = 0.2


def outlive_leases() -> None:
    """Many jobs block a thread for longer than a lease: they report late, perhaps beside their successors."""
    more: Any = mix._more

    def longer(task: str, draw: random.Random) -> tuple[Any, ...]:
        return (draw.uniform(2 * LEASE, 4 * LEASE),) if task == "in_thread" else more(task, draw)

    mix.SHARES["in_thread"] = SHARE
    mix._more = longer

"""The stores that can be tortured: SQLite in a file, PostgreSQL and Redis on servers of ours or the user's.

An arena knows how processes reach its store and what can be done to it; when and to whom is for the nemesis.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from holdfast.model.errors import ConfigurationError
from holdfast.model.masking import mask_url
from holdfast.torture.arenas.arena import Arena
from holdfast.torture.arenas.postgres import PostgresArena
from holdfast.torture.arenas.redis import RedisArena
from holdfast.torture.arenas.sqlite import SqliteArena

__all__ = ["Arena", "make_arena"]


def make_arena(url: str, out: Path, seed: int, lost: Callable[[str], None]) -> Arena:
    """The arena of a store; `lost` is called with the name of a process that loses an answer on its wire."""
    draw = random.Random(f"{seed} lost replies")
    match url.partition(":")[0]:
        case "sqlite":
            return SqliteArena(out)
        case "postgresql" | "postgres":
            return PostgresArena(url, out, lost, draw)
        case "redis" | "valkey":
            return RedisArena(url, out, lost, draw)
        case _:
            raise ConfigurationError(
                f"{mask_url(url)!r} cannot be tortured; give sqlite:, postgresql:, redis:, or the URL of a "
                "PostgreSQL or Redis server",
                setting="store",
            )

"""A SQLite file after the machine has started again: what Holdfast finds in it."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from holdfast.model.errors import HoldfastError
from holdfast.stores.sqlite import SqliteStore, clock
from tests.durability.acknowledged import Acknowledged
from tests.durability.aftermath import Aftermath, examine
from tests.durability.program import app

HOUR = 3600.0


class Passed:
    """Nanoseconds since the machine has started."""

    def __init__(self) -> None:
        self._more = 0

    def __call__(self) -> int:
        return time.monotonic_ns() + self._more

    def let_leases_end(self) -> None:
        self._more += round(app.settings.lease_seconds * 1e9)


@contextmanager
def another_boot(behind: float) -> Iterator[Passed]:
    """As if the machine had been started anew, with a wall clock that is so many seconds behind."""
    passed, wall = Passed(), time.time_ns
    with (
        patch.object(clock, "boot_clock", lambda: (passed, "another boot")),
        patch.object(time, "time_ns", lambda: wall() - round(behind * 1e9)),
    ):
        yield passed


def reopen(file: Path, known: Acknowledged, behind: float) -> Aftermath:
    """Opens what is left and examines it, with a wall clock that is so many seconds behind."""
    with another_boot(behind) as passed:
        try:
            return asyncio.run(_examine(file, known, passed))
        except (HoldfastError, sqlite3.Error) as error:
            return Aftermath(lost=list(known.stored), damage=repr(error))


async def _examine(file: Path, known: Acknowledged, passed: Passed) -> Aftermath:
    store = SqliteStore.from_url(f"sqlite:///{file}")
    integrity = (await store.facts()).get("integrity")
    session = await store.connect("default")
    try:
        found = await examine(session, known, passed.let_leases_end)
    finally:
        await session.close()
    if integrity not in {None, "integrity_check: ok"}:
        found.damage = integrity or ""
    return found

"""Who in this process waits in line for a lock."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterable
from threading import Lock

_log = logging.getLogger("holdfast.store")


class Waiters:
    """Those of one namespace of one store, by owner, shared by its sessions and threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wakes: dict[str, Callable[[], None]] = {}
        self._mark = secrets.token_hex(8)

    @property
    def mark(self) -> str:
        """Where they wait: another process, a fork, and another store of this process have other marks."""
        return f"{self._mark}-{os.getpid()}"

    def add(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Adds one; what it gives back takes it away again."""
        with self._lock:
            self._wakes[owner] = wake

        def stop() -> None:
            with self._lock:
                self._wakes.pop(owner, None)

        return stop

    def wake(self, owners: Iterable[str | None]) -> None:
        """Wakes those of the owners who wait here."""
        for owner in owners:
            wake = self._wakes.get(owner or "")
            if wake is not None:
                try:
                    wake()
                except Exception:  # noqa: BLE001  what was to be told is done, and must not seem to have failed
                    _log.exception("a waiter for a lock failed")

    def wake_all(self) -> None:
        with self._lock:
            owners = list(self._wakes)
        self.wake(owners)

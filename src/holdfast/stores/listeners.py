"""Whom to wake in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger("holdfast.store")


class Listeners:
    """Those of one namespace of one store, shared by its sessions and threads; told without any lock."""

    def __init__(self) -> None:
        self._listeners: tuple[_Listener, ...] = ()
        self.is_warned = False
        """Whether the log has it that nothing is heard from other processes."""

    def add(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Adds a listener; what it gives back takes it away again."""
        listener = _Listener(wake)
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return stop

    def wake(self) -> None:
        for listener in self._listeners:
            listener.call()


class _Listener:
    __slots__ = ("_wake",)

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def call(self) -> None:
        try:
            self._wake()
        except Exception:  # noqa: BLE001  what was to be told is done, and must not seem to have failed
            _log.exception("a wake-up listener failed")

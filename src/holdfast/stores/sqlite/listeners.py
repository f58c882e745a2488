"""Who wants to be told that there may be work."""

import logging
from collections.abc import Callable
from threading import Lock
from typing import Protocol

_log = logging.getLogger(__name__)


class Watch(Protocol):
    """Begins or ends to look out for what other processes write."""

    def __call__(self, *, on: bool) -> None: ...


class Listeners:
    """Wake-ups by namespace. `watch` is told when the first one comes and when the last one goes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._lock = Lock()
        self._all: tuple[tuple[int, Callable[[], None]], ...] = ()

    def add(self, ns: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Adds a listener; what it gives back takes it away again."""
        entry = (ns, wake)
        with self._lock:
            self._all = (*self._all, entry)
        self._watch(on=True)

        def stop() -> None:
            with self._lock:
                self._all = tuple(other for other in self._all if other is not entry)
                is_last = not self._all
            if is_last:
                self._watch(on=False)

        return stop

    def tell(self, namespaces: set[int] | None) -> None:
        """Wakes those of the namespaces, or all."""
        for ns, wake in self._all:
            if namespaces is None or ns in namespaces:
                try:
                    wake()
                except Exception:  # noqa: BLE001  what was to be told is done, and must not seem to have failed
                    _log.exception("a wake-up listener failed")

"""What just happened in this process, for logs, metrics and tests. Costs nothing when nobody listens."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.engine.tracing import Tracer

log = logging.getLogger("holdfast.notices")


@dataclass(frozen=True, slots=True)
class Notice:
    """One happening: its kind, and the facts by name."""

    kind: str
    facts: Mapping[str, Any]


Listener = Callable[[Notice], None]


class Notices:
    """The listeners of one application, and its tracer if it has one.

    Truthy only when somebody listens, so that callers can skip the work.
    """

    tracer: Tracer | None = None

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls the listener for each notice, on the thread where it happens; gives back how to stop it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return stop

    def tell(self, kind: str, **facts: Any) -> None:
        notice = Notice(kind, facts)
        for listener in self._listeners:
            try:
                listener(notice)
            except Exception:
                log.exception("a listener failed", extra={"fields": {"notice": kind}})

    async def wait_for(self, kind: str, **wanted: Any) -> Notice:
        """The next notice of that kind whose facts include the wanted ones."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Notice] = loop.create_future()

        def settle(notice: Notice) -> None:
            if not found.done():
                found.set_result(notice)

        def look(notice: Notice) -> None:
            if notice.kind == kind and all(notice.facts.get(name) == fact for name, fact in wanted.items()):
                loop.call_soon_threadsafe(settle, notice)

        stop = self.listen(look)
        try:
            return await found
        finally:
            stop()

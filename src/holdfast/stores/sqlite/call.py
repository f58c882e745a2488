"""One caller's piece of work on its way to a thread and back."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from holdfast.stores.sqlite.transaction import Transaction

T = TypeVar("T")

Work: TypeAlias = Callable[[Transaction], T]

_log = logging.getLogger(__name__)


class Call(Generic[T]):
    """Work for a namespace, and the future of whoever waits for it on an event loop.

    A call whose caller has gone before it was begun is left out; one that was begun is done whole.
    """

    __slots__ = ("_value", "error", "future", "loop", "ns", "wakes", "work")

    def __init__(self, ns: int, work: Work[T], loop: asyncio.AbstractEventLoop, *, wakes: bool) -> None:
        self.ns = ns
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[T] = loop.create_future()
        self.wakes = wakes
        self.error: Exception | None = None
        self._value: Any = None

    def run(self, tx: Transaction) -> None:
        self.error = None
        self._value = self.work(tx)
        self.wakes = self.wakes or tx.wakes

    def settle(self) -> None:
        """Tells the caller. Called on its loop."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self._value)


def deliver(calls: Iterable[Call[Any]]) -> None:
    """Settles calls, each on its own loop, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, some in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, some)
        except RuntimeError:
            _log.debug("answers for a loop that has ended", extra={"fields": {"answers": len(some)}})


def _settle(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.settle()

"""A thread with a connection of its own: drivers block, and their connections are not for sharing."""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

from holdfast.stores.mssql.driver import Connection, Fault
from holdfast.stores.mssql.faults import is_broken, is_deadlock, is_locked_out

T = TypeVar("T")
Work: TypeAlias = Callable[[Connection], T]

TRIES: Final = 4
"""How often work is begun that ends as the victim of a deadlock."""

_PAUSE = 0.01
_log = logging.getLogger(__name__)


class Opened:
    """A connection, and the time of the wall clock when another sign-in is due, if one ever is."""

    __slots__ = ("connection", "renew_at", "used")

    def __init__(self, connection: Connection, renew_at: float | None = None) -> None:
        self.connection = connection
        self.renew_at = renew_at
        self.used = time.monotonic()

    def is_usable(self, rested: float) -> bool:
        """Whether it still is one after so many seconds of rest, and may be used without a new sign-in."""
        is_due = self.renew_at is not None and time.time() >= self.renew_at
        return not is_due and self.connection.is_alive(rested)


class Seat:
    """Does one piece of work at a time, on its thread, for the event loop that made it.

    The connection is opened when the first work comes, and anew when it turns out to be broken. What has
    begun is done whole, whether or not the caller still waits for it. `keeper` takes the connection of a seat
    that is left; without one it is closed.
    """

    def __init__(
        self, opener: Callable[[], Opened], number: int, keeper: Callable[[Opened], None] | None = None
    ) -> None:
        self._open = opener
        self._keep = keeper
        self._loop = asyncio.get_running_loop()
        self._todo: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._opened: Opened | None = None
        self._is_suspect = False
        self._is_left = False
        self.since = time.monotonic()
        self.answer: asyncio.Future[Any] | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._serve, name=f"holdfast-mssql-{number}", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        return self._opened is not None

    @property
    def is_busy(self) -> bool:
        return self.answer is not None and not self.answer.done()

    def do(
        self, work: Work[T], *, tries: int = 1, locked: float = 0, holds: bool = False
    ) -> "asyncio.Future[T]":
        """Begins the work; its answer may be waited for, or left.

        It is begun up to `tries` times if deadlocks end it, and for `locked` seconds if it gets no lock in
        time. After a failure the connection is rolled back. One that `holds` a transaction is so only after a
        fault of the server's, which has ended it anyway: other errors are for whoever holds it.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        answer.add_done_callback(_seen)
        self.answer = answer
        self._todo.put(lambda: self._answer(answer, work, _Again(tries, locked), holds=holds))
        return answer

    def suspect(self) -> None:
        """Asks the connection whether it still is one, before it is used again."""
        self._is_suspect = True

    def leave(self) -> None:
        """Ends the thread after what it does, and the connection with it."""
        self._todo.put(None)

    def abandon(self) -> None:
        """The same, without patience for what it does: its server is silent."""
        self._is_left = True
        if (opened := self._opened) is not None:
            opened.connection.interrupt()
        self._todo.put(None)

    def _serve(self) -> None:
        while (task := self._todo.get()) is not None and not self._is_left:
            task()
        if self._keep is not None and self._opened is not None and not (self._is_left or self._is_suspect):
            self._keep(self._opened)
        else:
            self._close()
        self._tell(_succeed, self.ended, None)

    def _answer(self, answer: asyncio.Future[T], work: Work[T], again: "_Again", *, holds: bool) -> None:
        try:
            value = self._done(work, again, holds=holds)
        except BaseException as error:  # noqa: BLE001  whatever it is, the caller is told
            self._tell(_fail, answer, error)
        else:
            self._tell(_succeed, answer, value)

    def _done(self, work: Work[T], again: "_Again", *, holds: bool) -> T:
        opened = self._ready()
        if self._is_left:
            raise Fault("the server was silent for too long", is_lost=True, sent=False)
        again.begin()
        while True:
            try:
                return work(opened.connection)
            except Fault as fault:
                self._mend(opened, fault)
                if not self._goes_on() or not again.after(fault):
                    raise
                time.sleep(_PAUSE * random.random())
            except BaseException:
                if not holds:
                    self._mend(opened, None)
                raise
            finally:
                opened.used = time.monotonic()

    def _goes_on(self) -> bool:
        """Whether there is a connection, and still somebody who waits for its answers."""
        return self._opened is not None and not self._is_left

    def _ready(self) -> Opened:
        if (opened := self._opened) is not None:
            rested = float("inf") if self._is_suspect else time.monotonic() - opened.used
            if opened.is_usable(rested):
                self._is_suspect = False
                return opened
            self._close()
        self._is_suspect = False
        try:
            self._opened = self._open()
        except Fault as fault:
            fault.sent = False
            raise
        return self._opened

    def _mend(self, opened: Opened, fault: Fault | None) -> None:
        """Makes the connection fit for the next work, or ends it."""
        if fault is None or not is_broken(fault):
            try:
                opened.connection.rollback()
            except Fault as second:
                _log.debug("a connection was dropped", extra={"fields": {"error": second.text}})
            else:
                return
        self._close()

    def _close(self) -> None:
        if (opened := self._opened) is not None:
            self._opened = None
            opened.connection.close()

    def _tell(self, settle: Callable[[Any, Any], None], answer: asyncio.Future[Any], told: object) -> None:
        try:
            self._loop.call_soon_threadsafe(settle, answer, told)
        except RuntimeError:
            _log.debug("an answer for a loop that has ended")


class _Again:
    """Whether work that failed is begun again."""

    def __init__(self, tries: int, locked: float) -> None:
        self._tries = tries
        self._locked = locked
        self._until = 0.0

    def begin(self) -> None:
        self._until = time.monotonic() + self._locked

    def after(self, fault: Fault) -> bool:
        if is_locked_out(fault):
            return time.monotonic() < self._until
        self._tries -= 1
        return self._tries > 0 and is_deadlock(fault)


def _succeed(answer: asyncio.Future[Any], value: object) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def _seen(answer: asyncio.Future[Any]) -> None:
    """A caller that has gone does not ask what was wrong."""
    if not answer.cancelled():
        answer.exception()

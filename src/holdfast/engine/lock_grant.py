"""One holding of a lock, as its holder sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from holdfast.engine.lock_lease import LockLease, Lost
from holdfast.model.errors import LockLost


class Grant:
    """A lock that is held. It is renewed by itself; `async with grant:` releases it when left.

    When the lock is lost, `lost` is true, and the body of `async with` is cancelled and ends with LockLost.
    """

    def __init__(self, lease: LockLease, end: Callable[[LockLease], Awaitable[None]]) -> None:
        self._lease = lease
        self._end = end
        self._inside: asyncio.Task[object] | None = None
        self._is_interrupted = False
        self._cancelling = 0
        self._is_entered = False
        self._is_given_back = False

    def __repr__(self) -> str:
        return f"Grant({self.name!r}, token={self.token})"

    @property
    def name(self) -> str:
        return self._lease.name

    @property
    def token(self) -> int:
        """Greater than that of every earlier grant of any lock of the namespace.

        Give it to whatever the lock protects, so that it can refuse one that comes too late.
        """
        return self._lease.token

    @property
    def owner(self) -> str:
        """What the store knows the holder by."""
        return self._lease.owner

    @property
    def lost(self) -> Lost:
        """Whether the lock is lost; threads may wait for it."""
        return self._lease.lost

    @property
    def is_ours(self) -> bool:
        """False in a fork of the process that the lock was granted to: there it is lost."""
        return self._lease.is_ours

    def check(self) -> None:
        """Raises LockLost if the lock is lost: for code that cannot be cancelled."""
        if self.lost:
            raise self._loss()

    async def release(self) -> None:
        """Gives the lock back; more than once does no harm, nor does it if the lock is lost."""
        await self.release_by(self._end)

    async def release_by(self, end: Callable[[LockLease], Awaitable[None]]) -> None:
        """The same by way of another session, because that which got the lock may have ended."""
        if not self._is_given_back and self.is_ours:
            self._is_given_back = True
            self._lease.is_released = not self.lost
            await end(self._lease)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        if self._is_entered or self._is_given_back:
            raise LockLost(
                f"lock {self.name} with token {self.token} has been given back, or will be by the block that "
                "was entered with it; a grant is for one block: take the lock again"
            )
        self._is_entered = True
        self._cancelling = task.cancelling()
        self._inside = task
        self._lease.tell = lambda: _call(loop, self._interrupt)
        try:
            self.check()
        except LockLost:
            self._inside = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._inside = self._inside, None
        is_cut_off = False
        if self._is_interrupted and task is not None:
            is_cut_off = task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)
        await self.release()
        if self.lost and (error is None or is_cut_off):
            raise self._loss() from error

    def _loss(self) -> LockLost:
        return LockLost(
            f"lock {self.name} with token {self.token} was not renewed in time, and another may hold it; "
            "what was done since counts only where the token is checked"
        )

    def _interrupt(self) -> None:
        if self._inside is not None:
            self._is_interrupted = True
            self._inside.cancel(f"lock {self.name} is lost")


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and the body with it
        loop.call_soon_threadsafe(function)

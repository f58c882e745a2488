"""Locks of the memory store."""

from collections.abc import Callable, Sequence
from heapq import nsmallest
from threading import Lock

from holdfast.model.records import HeldLock, LockAnswer, LockHold, LockHolder, LockWish
from holdfast.stores.waiters import Waiters

_FEWEST = 1_000


class LockState:
    """One lock: who holds it, until when, and the ends of the places in line, by owner, first come first."""

    __slots__ = ("line", "owner", "token", "until")

    def __init__(self) -> None:
        self.owner = ""
        self.token = 0
        self.until = 0
        self.line: dict[str, int] = {}

    def is_idle(self, now: int) -> bool:
        return self.until <= now and all(end <= now for end in self.line.values())

    def tidy(self, now: int) -> None:
        """Takes out of the line whose place has ended."""
        for owner in [owner for owner, end in self.line.items() if end <= now]:
            del self.line[owner]

    def told(self, name: str, now: int) -> HeldLock:
        waiters = sum(now < end for end in self.line.values())
        return HeldLock(name=name, owner=self.owner, token=self.token, left=self.until - now, waiters=waiters)

    def turn(self, now: int) -> str | None:
        """Whose turn it is: the first in line, if the lock is free."""
        if now < self.until:
            return None
        self.tidy(now)
        return next(iter(self.line), None)


class LockShelf:
    """All locks of one namespace. Every method is called with the store's lock held."""

    def __init__(self) -> None:
        self.waiters = Waiters()
        self._locks: dict[str, LockState] = {}
        self._token = 0
        self._room = _FEWEST

    def acquire(self, wish: LockWish, now: int) -> LockAnswer:
        state = self._locks.get(wish.name)
        if state is None:
            state = self._make(wish.name, now)
        if state.owner == wish.owner and now < state.until:
            state.until = max(state.until, now + wish.ttl)
            return LockAnswer(token=state.token)
        state.tidy(now)
        before: list[int] = []
        for owner, end in state.line.items():
            if owner == wish.owner:
                break
            before.append(end)
        if state.until <= now and not before:
            state.line.pop(wish.owner, None)
            self._token = max(self._token + 1, now)
            state.owner, state.token, state.until = wish.owner, self._token, now + wish.ttl
            return LockAnswer(token=self._token)
        if wish.place:
            state.line[wish.owner] = now + wish.place
        return LockAnswer(token=None, after=max(state.until, *before, now) - now)

    def renew(self, hold: LockHold, now: int) -> bool:
        if not self.is_held(hold.name, hold.owner, hold.token, now):
            return False
        state = self._locks[hold.name]
        state.until = max(state.until, now + hold.ttl)
        return True

    def is_held(self, name: str, owner: str, token: int, now: int) -> bool:
        state = self._locks.get(name)
        return state is not None and (state.owner, state.token) == (owner, token) and now < state.until

    def holder(self, name: str, now: int) -> LockHolder | None:
        state = self._locks.get(name)
        if state is None or state.until <= now:
            return None
        return LockHolder(owner=state.owner, token=state.token, left=state.until - now)

    def held(self, after: str, limit: int, now: int) -> list[HeldLock]:
        names = nsmallest(
            limit, (name for name, state in self._locks.items() if name > after and now < state.until)
        )
        return [self._locks[name].told(name, now) for name in names]

    def release(self, name: str, owner: str, token: int | None, now: int) -> str | None:
        """Frees the lock if it is the owner's; whose turn it is thereby."""
        state = self._locks.get(name)
        if state is None:
            return None
        if token is None:
            state.line.pop(owner, None)
        elif (state.owner, state.token) != (owner, token):
            return None
        if state.owner == owner:
            state.until = 0
        turn = state.turn(now)
        if state.is_idle(now):
            del self._locks[name]
        return turn

    def _make(self, name: str, now: int) -> LockState:
        if len(self._locks) >= self._room:
            self._locks = {each: state for each, state in self._locks.items() if not state.is_idle(now)}
            self._room = max(_FEWEST, 2 * len(self._locks))
        state = self._locks[name] = LockState()
        return state


class MemoryLocks:
    """Locks of one namespace."""

    def __init__(self, shelf: LockShelf, lock: Lock, clock: Callable[[], int]) -> None:
        self._shelf = shelf
        self._lock = lock
        self._clock = clock

    async def acquire(self, wish: LockWish) -> LockAnswer:
        with self._lock:
            return self._shelf.acquire(wish, self._clock())

    async def renew(self, holds: Sequence[LockHold]) -> list[bool]:
        with self._lock:
            now = self._clock()
            return [self._shelf.renew(hold, now) for hold in holds]

    async def release(self, name: str, owner: str, token: int | None) -> None:
        with self._lock:
            turn = self._shelf.release(name, owner, token, self._clock())
        self._shelf.waiters.wake([turn])

    async def holder(self, name: str) -> LockHolder | None:
        with self._lock:
            return self._shelf.holder(name, self._clock())

    async def held(self, after: str, limit: int) -> list[HeldLock]:
        with self._lock:
            return self._shelf.held(after, limit, self._clock())

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        return self._shelf.waiters.add(owner, wake)

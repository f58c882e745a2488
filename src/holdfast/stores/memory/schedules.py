"""Schedules of the memory store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from threading import Lock
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.model.lifecycle import FINISHED
from holdfast.model.records import Verdict
from holdfast.model.scheduling import Run, ScheduleRecord, Schedules, ScheduleWrite, Term, as_written

if TYPE_CHECKING:
    from holdfast.stores.memory.shelf import Shelf


class ScheduleShelf:
    """All schedules of one namespace. Every method is called with the store's lock held.

    `_looks` are the times at which to look at them; an entry counts if the schedule still has that time.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, ScheduleRecord] = {}
        self._looks: list[tuple[int, str]] = []
        self._waiting: set[str] = set()

    def verdict(self, write: ScheduleWrite) -> Verdict | None:
        """The verdict on a write that changes nothing; None for one that is to be done."""
        stored = self.by_name.get(write.name)
        version, mark = (0, None) if stored is None else (stored.version, stored.mark)
        if version == write.version and write.after in (None, mark):
            return None
        is_repeat = version == write.version + 1 and mark == write.mark
        return Verdict.ACCEPTED if is_repeat else Verdict.REFUSED

    def put(self, write: ScheduleWrite) -> None:
        self.by_name[write.name] = as_written(write)
        if write.look_at is not None:
            heappush(self._looks, (write.look_at, write.name))
        (self._waiting.add if write.waits else self._waiting.discard)(write.name)

    def remove(self, name: str) -> bool:
        self._waiting.discard(name)
        return self.by_name.pop(name, None) is not None

    def due(self, now: int, limit: int) -> tuple[list[str], int | None]:
        """The names of those to be looked at, earliest first, and when to look again."""
        found: list[tuple[int, str]] = []
        following = None
        while self._looks and following is None:
            look_at, _ = look = heappop(self._looks)
            if not self._is_current(*look) or look in found[-1:]:
                continue
            if look_at > now or len(found) == limit:
                following = look_at
                heappush(self._looks, look)
            else:
                found.append(look)
        for look in found:
            heappush(self._looks, look)
        return [name for _, name in found], following

    def _is_current(self, look_at: int, name: str) -> bool:
        stored = self.by_name.get(name)
        return stored is not None and stored.look_at == look_at

    @property
    def waiting(self) -> list[str]:
        """Those that wait for the end of a job, by name."""
        return sorted(self._waiting)


class MemorySchedules:
    """Schedules of one namespace."""

    def __init__(self, shelf: Shelf, lock: Lock, clock: Callable[[], int]) -> None:
        self._shelf = shelf
        self._schedules = shelf.schedules
        self._lock = lock
        self._clock = clock

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        with self._lock:
            now = self._clock()
            if term is not None and not self._shelf.locks.is_held(term.lock, term.owner, term.token, now):
                return None
            verdicts = [self._done(write, now) for write in writes]
        self._shelf.listeners.wake()
        return verdicts

    async def remove(self, name: str) -> bool:
        with self._lock:
            return self._schedules.remove(name)

    async def get(self, names: Sequence[str]) -> Schedules:
        with self._lock:
            return self._told([name for name in names if name in self._schedules.by_name])

    async def list(self, after: str, limit: int) -> Schedules:
        with self._lock:
            names = sorted(name for name in self._schedules.by_name if name > after)
            return self._told(names[:limit])

    async def due(self, limit: int) -> Schedules:
        with self._lock:
            now = self._clock()
            names, following = self._schedules.due(now, limit)
            ended = [name for name in self._schedules.waiting if not self._run_of(name).live]
            told = self._told([*names, *(name for name in ended if name not in names)][:limit], now)
            told.next_look = None if following is None else max(0, following - now)
            return told

    def _done(self, write: ScheduleWrite, now: int) -> Verdict:
        verdict = self._schedules.verdict(write)
        if verdict is not None:
            return verdict
        self._schedules.put(write)
        self._shelf.add(write.jobs, now)
        self._shelf.events.append(write.events, now)
        return Verdict.ACCEPTED

    def _told(self, names: Sequence[str], now: int | None = None) -> Schedules:
        records = [replace(self._schedules.by_name[name], run=self._run_of(name)) for name in names]
        return Schedules(now=self._clock() if now is None else now, records=records)

    def _run_of(self, name: str) -> Run:
        job = self._shelf.jobs.get(self._schedules.by_name[name].job or "")
        if job is None:
            return Run()
        return Run(live=job.state not in FINISHED, started=job.started, finished=job.finished)

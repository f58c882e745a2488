"""Schedules, with every operation sent again after a transient fault."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.records import Verdict
from holdfast.model.scheduling import Schedules, ScheduleWrite, Term
from holdfast.store import ScheduleStore
from holdfast.stores.resilient.guard import Guard


class ResilientSchedules:
    """The schedules of one session. A write is known by its marks when it comes again."""

    def __init__(self, schedules: ScheduleStore, guard: Guard) -> None:
        self._schedules = schedules
        self._call = guard.call

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        return await self._call(lambda: self._schedules.write(writes, term))

    async def remove(self, name: str) -> bool:
        return await self._call(lambda: self._schedules.remove(name))

    async def get(self, names: Sequence[str]) -> Schedules:
        return await self._call(lambda: self._schedules.get(names))

    async def list(self, after: str, limit: int) -> Schedules:
        return await self._call(lambda: self._schedules.list(after, limit))

    async def due(self, limit: int) -> Schedules:
        return await self._call(lambda: self._schedules.due(limit))

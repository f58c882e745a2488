"""What holds jobs back, with every operation sent again after a transient fault."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage
from holdfast.model.lifecycle import State
from holdfast.store import FlowStore
from holdfast.stores.resilient.guard import Guard


class ResilientFlow:
    """The flow of one session."""

    def __init__(self, flow: FlowStore, guard: Guard) -> None:
        self._flow = flow
        self._call = guard.call

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        await self._call(lambda: self._flow.put(limits))

    async def swap(self, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
        return await self._call(lambda: self._flow.swap(known, limit))

    async def remove(self, scope: Scope, name: str) -> None:
        await self._call(lambda: self._flow.remove(scope, name))

    async def limits(self) -> list[LimitRecord]:
        return await self._call(self._flow.limits)

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        return await self._call(lambda: self._flow.usage(gates))

    async def awaited(self, job_id: str) -> Awaited | None:
        return await self._call(lambda: self._flow.awaited(job_id))

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        return await self._call(lambda: self._flow.before(job_id, after, limit))

    async def release(self, job_id: str) -> bool:
        return await self._call(lambda: self._flow.release(job_id))

    async def held(self, after: str | None, limit: int) -> list[str]:
        return await self._call(lambda: self._flow.held(after, limit))

    async def proceed(self, sequence: str) -> None:
        await self._call(lambda: self._flow.proceed(sequence))

    async def halted(self) -> dict[str, str]:
        return await self._call(self._flow.halted)

    async def overdue(self, limit: int) -> list[str]:
        return await self._call(lambda: self._flow.overdue(limit))

"""What holds jobs back in the memory store: limits, sequences, other jobs."""

from collections.abc import Callable, Sequence
from heapq import nsmallest
from threading import Lock

from msgspec.structs import replace

from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage, same, target
from holdfast.model.lifecycle import WAITING, State
from holdfast.stores.memory.limits import count_gates
from holdfast.stores.memory.shelf import Shelf


class MemoryFlow:
    """Limits, sequences and links of one namespace."""

    def __init__(self, shelf: Shelf, lock: Lock, clock: Callable[[], int]) -> None:
        self._shelf = shelf
        self._lock = lock
        self._clock = clock

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        with self._lock:
            now = self._clock()
            for limit in limits:
                self._shelf.limits.put(limit, now)
        self._shelf.listeners.wake()

    async def swap(self, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
        scope, name = target(known, limit)
        with self._lock:
            limits = self._shelf.limits
            stands = limits.of.get((scope, name))
            if same(stands, limit):
                return True
            if not same(stands, known):
                return False
            if limit is None:
                limits.remove(scope, name)
            else:
                if stands is not None:
                    # Any limit may take the place of one that is declared.
                    limits.of[scope, name] = replace(stands, declared=True)
                limits.put(limit, self._clock())
        self._shelf.listeners.wake()
        return True

    async def remove(self, scope: Scope, name: str) -> None:
        with self._lock:
            self._shelf.limits.remove(scope, name)
        self._shelf.listeners.wake()

    async def limits(self) -> list[LimitRecord]:
        with self._lock:
            return [limit for _, limit in sorted(self._shelf.limits.of.items())]

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        shelf = self._shelf
        with self._lock:
            leased = count_gates(shelf.jobs[job_id] for job_id in shelf.leases)
            parked = [entry[3] for entry in shelf.entries.values() if len(entry) == 4]
            return [Usage(running=leased[name], parked=parked.count(name)) for name in gates]

    async def awaited(self, job_id: str) -> Awaited | None:
        with self._lock:
            return self._shelf.links.awaited(job_id) if job_id in self._shelf.jobs else None

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        with self._lock:
            links = self._shelf.links.before.get(job_id, {}).items()
            return nsmallest(limit, (link for link in links if after is None or link[0] > after))

    async def release(self, job_id: str) -> bool:
        shelf = self._shelf
        with self._lock:
            record = shelf.jobs.get(job_id)
            if record is None:
                return False
            shelf.links.held.discard(job_id)
            shelf.let_go(record, self._clock())
        shelf.listeners.wake()
        return True

    async def held(self, after: str | None, limit: int) -> list[str]:
        shelf = self._shelf
        with self._lock:
            waiting = (job_id for job_id in shelf.links.held if shelf.jobs[job_id].state in WAITING)
            return nsmallest(limit, (job_id for job_id in waiting if after is None or job_id > after))

    async def proceed(self, sequence: str) -> None:
        shelf = self._shelf
        with self._lock:
            shelf.limits.sequences.halted.pop(sequence, None)
            shelf.proceed(sequence, self._clock())
        shelf.listeners.wake()

    async def halted(self) -> dict[str, str]:
        with self._lock:
            return dict(self._shelf.limits.sequences.halted)

    async def overdue(self, limit: int) -> list[str]:
        shelf = self._shelf
        with self._lock:
            now = self._clock()
            found = (
                (record.flow.expires, record.id)
                for job_id in shelf.entries
                if (record := shelf.jobs[job_id]).flow is not None
                and record.flow.expires is not None
                and record.flow.expires <= now
                and record.run == 0
                and record.state in WAITING
            )
            return [job_id for _, job_id in nsmallest(limit, found)]

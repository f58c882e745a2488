"""Workers and queues of the memory store."""

from collections.abc import Callable
from threading import Lock

from msgspec.structs import replace

from holdfast.model.lifecycle import LEASED, WAITING
from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.stores.memory.lane import Lane
from holdfast.stores.memory.shelf import Shelf

_DAY = 86_400 * SECOND


class MemoryFleet:
    """Workers and queues of one namespace."""

    def __init__(self, shelf: Shelf, lock: Lock, clock: Callable[[], int]) -> None:
        self._shelf = shelf
        self._lock = lock
        self._clock = clock

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        workers = self._shelf.workers
        with self._lock:
            now = self._clock()
            told = replace(worker, started=now, seen=now, report=None, reported=0)
            if worker.id in workers:
                known = workers[worker.id][0]
                told = replace(told, started=known.started, report=known.report, reported=known.reported)
            workers[worker.id] = (told, now + lease)

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        workers = self._shelf.workers
        with self._lock:
            if worker_id not in workers:
                return False
            now = self._clock()
            worker = replace(workers[worker_id][0], seen=now)
            if report is not None:
                worker = replace(worker, report=report, reported=now)
            workers[worker_id] = (worker, now + lease)
            return True

    async def retire(self, worker_id: str) -> None:
        with self._lock:
            self._shelf.workers.pop(worker_id, None)

    async def workers(self) -> list[WorkerRecord]:
        shelf = self._shelf
        with self._lock:
            now = self._clock()
            shelf.workers = {key: known for key, known in shelf.workers.items() if now - known[1] < _DAY}
            return [replace(worker, live=now < until) for _, (worker, until) in sorted(shelf.workers.items())]

    async def pause(self, queue: str) -> None:
        with self._lock:
            lane = self._shelf.lane(queue)
            if lane.paused_since is None:
                lane.paused_since = self._clock()
            lane.was_paused = True

    async def resume(self, queue: str) -> None:
        with self._lock:
            lane = self._shelf.lanes.get(queue)
            if lane is not None:
                lane.paused_since = None
        self._shelf.listeners.wake()

    async def queues(self) -> list[QueueRecord]:
        with self._lock:
            now = self._clock()
            return [
                QueueRecord(
                    name=queue,
                    paused=lane.paused,
                    paused_since=lane.paused_since,
                    oldest=self._oldest(lane, now),
                )
                for queue, lane in sorted(self._shelf.lanes.items())
                if lane.was_paused or _has_live(lane)
            ]

    def _oldest(self, lane: Lane, now: int) -> int | None:
        shelf = self._shelf
        shelf.promote(lane, now)
        first = (shelf.jobs[job_id] for job_id in lane.firsts(shelf.entries))
        return max((now - max(record.due, record.created) for record in first), default=None)


def _has_live(lane: Lane) -> bool:
    return any(lane.counts[state] for state in WAITING | LEASED)

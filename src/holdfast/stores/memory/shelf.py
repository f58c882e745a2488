"""All data of one namespace, indexed so that no operation costs more because there are more jobs."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from operator import methodcaller

from holdfast.model.lifecycle import FINISHED, LEASED, PRUNABLE, WAITING, State
from holdfast.model.records import Added, AttemptRecord, JobRecord, NewJob, WorkerRecord, as_added
from holdfast.stores.listeners import Listeners
from holdfast.stores.memory.events import EventShelf
from holdfast.stores.memory.lane import Entry, Lane, Later, Line, Ready
from holdfast.stores.memory.locks import LockShelf
from holdfast.stores.memory.schedules import ScheduleShelf

copied: Callable[[JobRecord], JobRecord] = methodcaller("__copy__")

_SCHEDULED = State.SCHEDULED


class Shelf:
    """One namespace. Every method is called with the store's lock held.

    What is kept beside the jobs: `entries`, the place of each waiting job in its lane; `leases`, the tick by
    which each leased job was claimed; `keys`, the holder of each key and the end of its TTL; `closers`,
    who ended an attempt if not its own worker; `asked`, which of a worker's jobs were asked to stop;
    `finished`, what may be pruned, oldest first.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.lanes: dict[str, Lane] = {}
        self.entries: dict[str, Entry] = {}
        self.leases: dict[str, int] = {}
        self.keys: dict[str, tuple[str, int]] = {}
        self.attempts: dict[str, tuple[AttemptRecord, ...]] = {}
        self.closers: dict[str, dict[int, str]] = {}
        self.asked: dict[str, set[str]] = {}
        self.finished: deque[tuple[int, str]] = deque()
        self.workers: dict[str, tuple[WorkerRecord, int]] = {}
        self.listeners = Listeners()
        self.locks = LockShelf()
        self.schedules = ScheduleShelf()
        self.events = EventShelf()
        self._left_behind = 0

    def lane(self, queue: str) -> Lane:
        lane = self.lanes.get(queue)
        if lane is None:
            lane = self.lanes[queue] = Lane()
        return lane

    def add(self, job: NewJob, now: int) -> Added:
        stored = self.jobs.get(job.id)
        if stored is not None:
            same = stored.task == job.task and stored.queue == job.queue and stored.payload == job.payload
            return Added(record=copied(stored), created=False, conflict=None if same else "id")
        if job.key is not None:
            holder = self.key_holder(job.key, now)
            if holder is not None:
                same = holder.task == job.task and holder.payload == job.payload
                return Added(record=copied(holder), created=False, conflict=None if same else "key")
            self.keys[job.key] = (job.id, now + job.key_ttl)
        record = as_added(job, now)
        self.jobs[job.id] = record
        lane = self.lane(job.queue)
        lane.counts[_SCHEDULED] += 1
        self.wait(lane, record, now)
        return Added(record=copied(record), created=True)

    def key_holder(self, key: str, now: int) -> JobRecord | None:
        """The job that holds the key, if any does now."""
        job_id, until = self.keys.get(key, ("", 0))
        holder = self.jobs.get(job_id)
        if holder is None or (holder.state in FINISHED and until <= now):
            return None
        return holder

    def wait(self, lane: Lane, record: JobRecord, now: int) -> None:
        """Puts a waiting job where claims find it."""
        if record.due <= now:
            self._make_ready(lane, record)
        else:
            later: Later = (record.due, record.id)
            self.entries[record.id] = later
            heappush(lane.later, later)

    def _make_ready(self, lane: Lane, record: JobRecord) -> None:
        ready: Ready = (record.priority, record.due, record.id)
        self.entries[record.id] = ready
        lane.due[record.state] += 1
        line = lane.lines.get(record.task)
        if line is None:
            line = lane.lines[record.task] = Line()
        line.push(ready)

    def promote(self, lane: Lane, now: int) -> int | None:
        """Makes ready what is due; when the next job of the lane will be."""
        later = lane.later
        entries = self.entries
        while later:
            due, job_id = entry = later[0]
            if entries.get(job_id) is not entry:
                heappop(later)
                self._left_behind -= 1
            elif due <= now:
                heappop(later)
                self._make_ready(lane, self.jobs[job_id])
            else:
                return due
        return None

    def take(self, entry: Ready) -> JobRecord | None:
        """The job of an entry from the head of its line; None if the entry was left behind."""
        job_id = entry[2]
        if self.entries.get(job_id) is not entry:
            self._left_behind -= 1
            return None
        del self.entries[job_id]
        return self.jobs[job_id]

    def withdraw(self, lane: Lane, record: JobRecord) -> None:
        """Takes a waiting job out of the order of its lane."""
        entry = self.entries.pop(record.id)
        if len(entry) == 3:
            lane.due[record.state] -= 1
        self._left_behind += 1
        if self._left_behind > 1_000 + len(self.entries):
            for each in self.lanes.values():
                each.keep_only(self.entries)
            self._left_behind = 0

    def end_lease(self, record: JobRecord) -> None:
        del self.leases[record.id]
        if record.cancel_asked and record.worker is not None:
            asked = self.asked[record.worker]
            asked.discard(record.id)
            if not asked:
                del self.asked[record.worker]
        record.worker = None
        record.lease_until = None

    def note_ask(self, record: JobRecord) -> None:
        if record.worker is not None:
            self.asked.setdefault(record.worker, set()).add(record.id)

    def note_finish(self, record: JobRecord, now: int) -> None:
        record.finished = now
        if record.state in PRUNABLE:
            self.finished.append((now, record.id))

    def release_key(self, record: JobRecord) -> None:
        if record.key is not None and self.keys.get(record.key, ("", 0))[0] == record.id:
            del self.keys[record.key]

    def forget(self, record: JobRecord) -> None:
        """Removes a job that is not leased, with all that is kept beside it."""
        lane = self.lanes[record.queue]
        if record.state in WAITING:
            self.withdraw(lane, record)
        lane.counts[record.state] -= 1
        self.release_key(record)
        self.attempts.pop(record.id, None)
        self.closers.pop(record.id, None)
        del self.jobs[record.id]

    def live(self) -> list[JobRecord]:
        return [self.jobs[job_id] for ids in (self.entries, self.leases) for job_id in ids]

    def leased_by(self, worker: str, seq: int) -> list[JobRecord]:
        claimed = (self.jobs[job_id] for job_id, claim in self.leases.items() if claim == seq)
        return [record for record in claimed if record.worker == worker and record.state in LEASED]

"""All data of one namespace, indexed so that no operation costs more because there are more jobs."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from operator import methodcaller

from msgspec.structs import replace

from holdfast.model.flow import AFTER, NO_FLOW, SEQUENCE, NewFlow, Scope, or_none
from holdfast.model.lifecycle import FINISHED, LEASED, PRUNABLE, WAITING, State
from holdfast.model.records import Added, AttemptRecord, JobRecord, NewJob, WorkerRecord, as_added
from holdfast.stores.listeners import Listeners
from holdfast.stores.memory.events import EventShelf
from holdfast.stores.memory.lane import Entry, Lane, Later, Line, Parked, Ready
from holdfast.stores.memory.limits import Limits
from holdfast.stores.memory.links import Links
from holdfast.stores.memory.locks import LockShelf
from holdfast.stores.memory.ranks import Place, Ranks
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
        self.limits = Limits()
        self.links = Links()
        self.ranks = Ranks()
        self._left_behind = 0
        self._freed = 0

    def lane(self, queue: str) -> Lane:
        lane = self.lanes.get(queue)
        if lane is None:
            lane = self.lanes[queue] = Lane()
        return lane

    def add(self, jobs: Sequence[NewJob], now: int) -> list[Added]:
        floors = self.ranks.floors(jobs, lambda place: self._first_ready(place, now), now)
        return [self._add(job, floors, now) for job in jobs]

    def _first_ready(self, place: Place, now: int) -> int | None:
        queue, priority = place
        lane = self.lanes.get(queue)
        if lane is None:
            return None
        self.promote(lane, now)
        firsts = [line.first_of(priority, self.entries) for line in lane.lines.values()]
        return min((rank for rank in firsts if rank is not None), default=None)

    def _add(self, job: NewJob, floors: dict[Place, int], now: int) -> Added:
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
        if job.flow is not None:
            self._add_flow(record, job.flow, floors)
        self.wait(lane, record, now)
        return Added(record=copied(record), created=True)

    def _add_flow(self, record: JobRecord, new: NewFlow, floors: dict[Place, int]) -> None:
        flow = record.flow or NO_FLOW
        rank = None
        if flow.fair_key is not None:
            limit = self.limits.of.get((Scope.KEY, flow.fair_key))
            floor = floors[record.queue, record.priority]
            rank = self.ranks.draw(record.queue, flow.fair_key, floor, limit.weight if limit else 1.0)
        record.flow = or_none(replace(flow, rank=rank, unmet=self.links.add(record, new, self.jobs)))
        if flow.sequence is not None:
            self.limits.sequences.add(flow.sequence, record.id)

    def key_holder(self, key: str, now: int) -> JobRecord | None:
        """The job that holds the key, if any does now."""
        job_id, until = self.keys.get(key, ("", 0))
        holder = self.jobs.get(job_id)
        if holder is None or (holder.state in FINISHED and until <= now):
            return None
        return holder

    def wait(self, lane: Lane, record: JobRecord, now: int) -> None:
        """Puts a waiting job where claims find it, or aside if it waits for others."""
        if self.links.holds(record.id):
            self.park(lane, record, AFTER)
        elif record.due <= now:
            self._make_ready(lane, record)
        else:
            later: Later = (record.due, record.id)
            self.entries[record.id] = later
            heappush(lane.later, later)

    def _make_ready(self, lane: Lane, record: JobRecord) -> None:
        ready: Ready = (record.priority, _rank(record), record.id)
        self.entries[record.id] = ready
        lane.due[record.state] += 1
        if record.priority:
            lane.has_priorities = True
        line = lane.lines.get(record.task)
        if line is None:
            line = lane.lines[record.task] = Line()
        line.push(ready)

    def park(self, lane: Lane, record: JobRecord, gate: str) -> None:
        """Puts a waiting job aside. It is in no order now."""
        parked: Parked = (record.priority, _rank(record), record.id, gate)
        record.flow = replace(record.flow or NO_FLOW, parked=gate)
        self.entries[record.id] = parked
        lane.parked[record.state] += 1
        if gate == AFTER or gate.startswith(SEQUENCE):
            self.limits.note_room(record)
        else:
            self.limits.park(record, parked)

    def unpark(self, record: JobRecord, now: int) -> None:
        self._freed += 1
        lane = self.lanes[record.queue]
        self.withdraw(lane, record)
        self.wait(lane, record, now)

    def leaves_something(self, taken: int) -> bool:
        """Whether more was freed since this was last asked than was taken, or may be freed by a claim."""
        freed, self._freed = self._freed, 0
        return freed > taken or bool(self.limits.open)

    def is_parked(self, job_id: str, gate: str) -> bool:
        entry = self.entries.get(job_id)
        return entry is not None and len(entry) == 4 and entry[3] == gate

    def open_gates(self, leased: Counter[str], now: int) -> None:
        """Frees the first jobs of all lines at gates that have room."""
        for entry in self.limits.take_open(self._stands, leased, now):
            self.unpark(self.jobs[entry[2]], now)

    def _stands(self, entry: Parked) -> bool:
        return self.entries.get(entry[2]) is entry

    def call_next(self, ended: JobRecord, now: int) -> None:
        """Frees the job whose turn it is in the sequence of one that ended, or whose lease did."""
        if ended.flow is not None and ended.flow.sequence is not None:
            self.proceed(ended.flow.sequence, now)

    def proceed(self, sequence: str, now: int) -> None:
        job_id = self.limits.sequences.next(sequence)
        if job_id is not None and self.is_parked(job_id, SEQUENCE + sequence):
            self.unpark(self.jobs[job_id], now)

    def let_go(self, record: JobRecord, now: int) -> None:
        """Frees a job that waits for others no longer."""
        if self.is_parked(record.id, AFTER) and not self.links.holds(record.id):
            self.unpark(record, now)

    def tell_waiting(self, record: JobRecord, now: int) -> None:
        """A job is finished: others may have waited for that."""
        self.limits.sequences.end(record)
        self._tell(record, record.state, now)

    def _tell(self, record: JobRecord, state: State, now: int) -> None:
        for waiter in self.links.finished(record.id, state, self.jobs):
            if state is not State.SUCCESS:
                flow = waiter.flow or NO_FLOW
                waiter.flow = replace(flow, unmet=flow.unmet + 1)
            self.let_go(waiter, now)
        self.call_next(record, now)

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
        elif len(entry) == 4:
            lane.parked[record.state] -= 1
            record.flow = or_none(replace(record.flow or NO_FLOW, parked=None))
            return
        self.limits.note_room(record)
        self._left_behind += 1
        if self._left_behind > 1_000 + len(self.entries):
            for each in self.lanes.values():
                each.keep_only(self.entries)
            self._left_behind = 0

    def end_lease(self, record: JobRecord) -> None:
        del self.leases[record.id]
        self.limits.note_room(record)
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

    def forget(self, record: JobRecord, now: int) -> None:
        """Removes a job that is not leased, with all that is kept beside it."""
        lane = self.lanes[record.queue]
        if record.state in WAITING:
            self.withdraw(lane, record)
        lane.counts[record.state] -= 1
        self.links.forget(record.id)
        self.limits.sequences.forget(record)
        self._tell(record, State.CANCELLED, now)
        self.release_key(record)
        self.attempts.pop(record.id, None)
        self.closers.pop(record.id, None)
        del self.jobs[record.id]

    def live(self) -> list[JobRecord]:
        return [self.jobs[job_id] for ids in (self.entries, self.leases) for job_id in ids]

    def leased_by(self, worker: str, seq: int) -> list[JobRecord]:
        claimed = (self.jobs[job_id] for job_id, claim in self.leases.items() if claim == seq)
        return [record for record in claimed if record.worker == worker and record.state in LEASED]


def _rank(record: JobRecord) -> int:
    """Where the job stands among those of its priority."""
    return record.due if record.flow is None or record.flow.rank is None else record.flow.rank

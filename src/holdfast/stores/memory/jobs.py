"""The job operations of the memory store. Nothing waits while the lock is held."""

from collections.abc import Callable, Sequence
from heapq import nlargest
from threading import Lock

from holdfast.model.lifecycle import FINISHED, LEASED, PRUNABLE, State
from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Ticked,
    Want,
)
from holdfast.stores.memory.claims import claim
from holdfast.stores.memory.edits import apply_edit
from holdfast.stores.memory.moves import apply_move
from holdfast.stores.memory.shelf import Shelf, copied
from holdfast.stores.plain import may_wake


class MemoryJobs:
    """Jobs of one namespace."""

    def __init__(self, shelf: Shelf, lock: Lock, clock: Callable[[], int]) -> None:
        self._shelf = shelf
        self._lock = lock
        self._clock = clock

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        with self._lock:
            now = self._clock()
            answers = self._shelf.add(jobs, now)
        self._shelf.listeners.wake()
        return answers

    async def tick(self, tick: Tick) -> Ticked:
        shelf = self._shelf
        worker = tick.worker
        want = tick.want
        with self._lock:
            now = self._clock()
            verdicts = [apply_move(shelf, worker, move, now) for move in tick.moves]
            registered = worker in shelf.workers and now < shelf.workers[worker][1]
            claimed: list[JobRecord] = []
            next_due = None
            if want is not None:
                next_due = self._promote(want, now)
                if tick.repeat:
                    claimed = [copied(record) for record in shelf.leased_by(worker, tick.seq)]
                if registered and not claimed:
                    claimed = claim(shelf, worker, tick.seq, want, now)
                next_due = self._next(next_due, now)
            asked = [(job_id, shelf.jobs[job_id].token) for job_id in sorted(shelf.asked.get(worker, ()))]
            paused = self._paused(want)
            makes_work = shelf.leaves_something(len(claimed)) or may_wake(tick.moves)
        if makes_work:
            shelf.listeners.wake()
        return Ticked(
            verdicts=verdicts,
            claimed=claimed,
            cancel_asked=asked,
            paused=paused,
            next_due=next_due,
            registered=registered,
            paused_tasks=shelf.limits.paused(want.tasks) if want is not None else frozenset(),
        )

    def _promote(self, want: Want, now: int) -> int | None:
        lanes = [self._shelf.lanes[queue] for queue in want.queues if queue in self._shelf.lanes]
        dues = [self._shelf.promote(lane, now) for lane in lanes if not lane.paused]
        return min((due - now for due in dues if due is not None), default=None)

    def _next(self, due: int | None, now: int) -> int | None:
        """How long until there may be more: something is due, or a gate opens."""
        opening = self._shelf.limits.next_opening()
        if opening is None:
            return due
        left = max(opening - now, 0)
        return left if due is None else min(due, left)

    def _paused(self, want: Want | None) -> frozenset[str]:
        lanes = self._shelf.lanes
        return frozenset(
            queue for queue in (want.queues if want else ()) if queue in lanes and lanes[queue].paused
        )

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        with self._lock:
            now = self._clock()
            return [self._extend(worker, extension, now) for extension in extensions]

    def _extend(self, worker: str, extension: Extension, now: int) -> Held:
        record = self._shelf.jobs.get(extension.job)
        if (
            record is None
            or record.lease_until is None
            or record.token != extension.token
            or record.worker != worker
            or record.lease_until <= now
        ):
            return Held.LOST
        record.lease_until = max(record.lease_until, now + extension.lease)
        if extension.elapsed is not None and record.state is State.CLAIMED:
            counts = self._shelf.lanes[record.queue].counts
            counts[State.CLAIMED] -= 1
            counts[State.RUNNING] += 1
            record.state = State.RUNNING
            record.started = now - extension.elapsed
        if extension.progress is not None or extension.progress_note is not None:
            record.progress = extension.progress
            record.progress_note = extension.progress_note
        return Held.CANCEL_ASKED if record.cancel_asked else Held.HELD

    async def expired(self, limit: int) -> list[JobRecord]:
        shelf = self._shelf
        with self._lock:
            now = self._clock()
            # Only what workers hold is looked through, which is little however many jobs there are.
            found = [
                (until, job_id)
                for job_id in shelf.leases
                if (until := shelf.jobs[job_id].lease_until) is not None and until <= now
            ]
            return [copied(shelf.jobs[job_id]) for _, job_id in sorted(found)[:limit]]

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        with self._lock:
            record = self._shelf.jobs.get(job_id)
            if record is None or record.version != version:
                return None
            if not apply_edit(self._shelf, record, edit, self._clock()):
                return None
            answer = copied(record)
        self._shelf.listeners.wake()
        return answer

    async def delete(self, job_id: str) -> bool:
        with self._lock:
            record = self._shelf.jobs.get(job_id)
            if record is not None:
                if record.state in LEASED:
                    return False
                self._shelf.forget(record, self._clock())
        self._shelf.listeners.wake()
        return True

    async def get(self, job_id: str) -> JobRecord | None:
        return (await self.states([job_id]))[0]

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        with self._lock:
            found = [self._shelf.jobs.get(job_id) for job_id in job_ids]
            return [record and copied(record) for record in found]

    async def find(self, query: Query) -> list[JobRecord]:
        with self._lock:
            only_live = query.states and query.states.isdisjoint(FINISHED)
            among = self._shelf.live() if only_live else self._shelf.jobs.values()
            matching = (record for record in among if _matches(record, query))
            return [
                copied(record) for record in nlargest(query.limit, matching, key=lambda record: record.id)
            ]

    async def count(self, most: int | None = None) -> list[QueueCount]:
        with self._lock:
            now = self._clock()
            counts: list[QueueCount] = []
            for queue, lane in sorted(self._shelf.lanes.items()):
                self._shelf.promote(lane, now)
                counts += [
                    QueueCount(
                        queue=queue,
                        state=state,
                        count=count,
                        due=lane.due.get(state, 0),
                        parked=lane.parked.get(state, 0),
                    )
                    for state, count in lane.counts.items()
                    if count
                ]
            return counts

    async def history(self, job_id: str) -> list[AttemptRecord]:
        with self._lock:
            return list(self._shelf.attempts.get(job_id, ()))

    async def prune(self, older_than: int, limit: int) -> int:
        shelf = self._shelf
        removed = 0
        with self._lock:
            before = self._clock() - older_than
            while removed < limit and shelf.finished and shelf.finished[0][0] < before:
                finished, job_id = shelf.finished.popleft()
                record = shelf.jobs.get(job_id)
                # A job that was deleted or replayed since then has left its place here behind.
                if record is not None and record.finished == finished and record.state in PRUNABLE:
                    shelf.forget(record, before + older_than)
                    removed += 1
        return removed


def _matches(record: JobRecord, query: Query) -> bool:
    return (
        (not query.states or record.state in query.states)
        and (query.queue is None or record.queue == query.queue)
        and (query.task is None or record.task == query.task)
        and (query.tag is None or query.tag in record.tags)
        and (query.worker is None or record.worker == query.worker)
        and (query.due_after is None or record.due >= query.due_after)
        and (query.due_before is None or record.due < query.due_before)
        and (query.cursor is None or record.id < query.cursor)
    )

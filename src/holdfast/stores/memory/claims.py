"""Claims: which ready jobs a worker gets. Called with the store's lock held."""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, Want
from holdfast.stores.memory.lane import Lane, Line, Ready
from holdfast.stores.memory.limits import MOST, count_gates
from holdfast.stores.memory.shelf import Shelf, copied

_CLAIMED = State.CLAIMED


def claim(shelf: Shelf, worker: str, seq: int, want: Want, now: int) -> list[JobRecord]:
    """Gives ready jobs to the worker; copies, so that what it does with them changes nothing here."""
    claim = Claim(shelf, worker, seq, want, now)
    if shelf.limits.hold_nothing:
        claim.take_all()
    else:
        claim.take_what_may_pass()
    return claim.claimed


class Claim:
    """One claim under way."""

    def __init__(self, shelf: Shelf, worker: str, seq: int, want: Want, now: int) -> None:
        self._shelf = shelf
        self._worker = worker
        self._seq = seq
        self._want = want
        self._now = now
        self.claimed: list[JobRecord] = []

    def _lanes(self) -> Iterator[Lane]:
        for queue in self._want.queues:
            lane = self._shelf.lanes.get(queue)
            if lane is not None and not lane.paused and len(self.claimed) < self._want.limit:
                yield lane

    def take_all(self) -> None:
        """Takes the first jobs, since nothing holds any back."""
        want = self._want
        for lane in self._lanes():
            fronts = [
                (first, task, line)
                for task, line in lane.lines.items()
                if task in want.tasks and (first := line.first()) is not None
            ]
            heapify(fronts)
            while fronts and len(self.claimed) < want.limit:
                entry, task, line = fronts[0]
                following = line.drop_first()
                if following is not None:
                    heapreplace(fronts, (following, task, line))
                else:
                    heappop(fronts)
                record = self._shelf.take(entry)
                if record is not None:
                    self._lease_out(lane, record)

    def take_what_may_pass(self) -> None:
        """Takes the first jobs that may pass, and parks those before them that may not."""
        shelf, now = self._shelf, self._now
        limits = shelf.limits
        leased = count_gates(shelf.jobs[job_id] for job_id in shelf.leases)
        looks = self._want.limit + MOST
        shelf.open_gates(leased, now)
        for lane in self._lanes():
            while len(self.claimed) < self._want.limit and looks > 0:
                record = self._next(lane)
                if record is None:
                    break
                looks -= 1
                gate = limits.hindrance(record, leased, now)
                if gate is None:
                    limits.pass_through(record, leased, now)
                    self._lease_out(lane, record)
                else:
                    lane.due[record.state] -= 1
                    shelf.park(lane, record, gate)
                    shelf.open_gates(leased, now)
        limits.is_looked_through = looks > 0

    def _next(self, lane: Lane) -> JobRecord | None:
        """The first ready job of the wanted tasks, taken out of its line."""
        while True:
            fronts: list[tuple[Ready, Line]] = [
                (first, line)
                for task, line in lane.lines.items()
                if task in self._want.tasks and (first := line.first()) is not None
            ]
            if not fronts:
                return None
            entry, line = min(fronts, key=lambda front: front[0])
            line.drop_first()
            record = self._shelf.take(entry)
            if record is not None:
                return record

    def _lease_out(self, lane: Lane, record: JobRecord) -> None:
        lane.due[record.state] -= 1
        lane.counts[record.state] -= 1
        lane.counts[_CLAIMED] += 1
        self._shelf.leases[record.id] = self._seq
        self._lease(record)
        if record.cancel_asked:
            self._shelf.note_ask(record)
        self.claimed.append(copied(record))

    def _lease(self, record: JobRecord) -> None:
        now = self._now
        record.state = _CLAIMED
        record.run += 1
        record.version += 1
        record.token = max(record.token + 1, now)
        record.worker = self._worker
        record.lease_until = now + (self._want.lease if record.lease is None else record.lease)
        record.started = None
        record.reason = None
        record.progress = None
        record.progress_note = None

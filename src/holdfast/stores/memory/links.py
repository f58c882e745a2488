"""Jobs that wait for other jobs. Called with the store's lock held."""

from collections import Counter

from holdfast.model.flow import Awaited, NewFlow
from holdfast.model.lifecycle import FINISHED, WAITING, State
from holdfast.model.records import JobRecord


class Links:
    """Which job waits for which: `before` has for a job those that it waits for, and how each ended.

    `after` has for a job those that wait for it, `pending` how many it waits for itself.
    """

    def __init__(self) -> None:
        self.before: dict[str, dict[str, State | None]] = {}
        self.after: dict[str, set[str]] = {}
        self.pending: Counter[str] = Counter()
        self.held: set[str] = set()

    def add(self, record: JobRecord, flow: NewFlow, jobs: dict[str, JobRecord]) -> int:
        """Links a new job to those that it waits for; how many of them have not succeeded and never will.

        A job that is not waiting any more, because it was cancelled, gets nothing more to wait for.
        """
        if flow.held:
            self.held.add(record.id)
        for job_id in flow.after:
            if job_id != record.id:
                self._link(record.id, jobs.get(job_id), job_id, any_will_do=flow.after_any)
        follower = None if flow.before in (None, record.id) else jobs.get(flow.before or "")
        if follower is not None and follower.state in WAITING and self.holds(follower.id):
            self._link(follower.id, record, record.id, any_will_do=True)
        ends = self.before.get(record.id, {}).values()
        return sum(end is not None and end is not State.SUCCESS for end in ends)

    def _link(self, waiter: str, other: JobRecord | None, job_id: str, *, any_will_do: bool) -> None:
        state = State.CANCELLED if other is None else other.state
        is_pending = state not in FINISHED or (state is State.DLQ and not any_will_do)
        before = self.before.setdefault(waiter, {})
        if job_id not in before:
            before[job_id] = None if is_pending else state
            if is_pending:
                self.after.setdefault(job_id, set()).add(waiter)
                self.pending[waiter] += 1

    def holds(self, job_id: str) -> bool:
        """Whether the job waits for another, or is held."""
        return job_id in self.held or self.pending[job_id] > 0

    def finished(self, job_id: str, state: State, jobs: dict[str, JobRecord]) -> list[JobRecord]:
        """A job ended so, or was removed as if cancelled; the jobs for which it was pending until now."""
        told: list[JobRecord] = []
        for waiter in sorted(self.after.get(job_id, ())):
            record = jobs.get(waiter)
            if record is None or (state is State.DLQ and not (record.flow and record.flow.after_any)):
                continue
            self.before[waiter][job_id] = state
            self.pending[waiter] -= 1
            self.after[job_id].discard(waiter)
            told.append(record)
        if not self.after.get(job_id):
            self.after.pop(job_id, None)
        return told

    def forget(self, job_id: str) -> None:
        """Drops what the job itself waited for."""
        self.held.discard(job_id)
        self.pending.pop(job_id, None)
        for other in self.before.pop(job_id, {}):
            if other in self.after:
                self.after[other].discard(job_id)

    def awaited(self, job_id: str) -> Awaited:
        ends = self.before.get(job_id, {}).values()
        return Awaited(
            total=len(ends),
            pending=sum(end is None for end in ends),
            unmet=sum(end is not None and end is not State.SUCCESS for end in ends),
            held=job_id in self.held,
        )

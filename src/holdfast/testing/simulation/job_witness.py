"""Watches what the store says about jobs, and knows by itself what it may say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.model.lifecycle import FINISHED, Ending, State
from holdfast.model.records import (
    Added,
    Edit,
    Extension,
    Held,
    JobRecord,
    Move,
    NewJob,
    Tick,
    Ticked,
    Verdict,
)

Object = Callable[[str], None]


@dataclass(slots=True)
class Life:
    """What is known of one job. `endings` are those of its attempts by token, with who closed them."""

    token: int = 0
    worker: str | None = None
    until: int = 0
    is_leased: bool = False
    is_started: bool = False
    is_live: bool = True
    generation: int = 0
    completed: set[int] = field(default_factory=set[int])
    endings: dict[int, tuple[Ending, str]] = field(default_factory=dict[int, tuple[Ending, str]])


class JobWitness:
    """Objects to whatever breaks a promise about jobs.

    Tokens grow; no job has two holders; a write is accepted with the current token alone, and refused only
    without it; a lease that has ended is never prolonged; each generation of a job is completed once.
    """

    def __init__(self, object_to: Object) -> None:
        self._object_to = object_to
        self.lives: dict[str, Life] = {}
        self.live: set[str] = set()
        self.takeovers = self.refusals = self.completions = 0

    def stored(self, jobs: Iterable[NewJob]) -> None:
        """Jobs were stored together with something else; those that were there before are left out."""
        for job in jobs:
            if job.id not in self.lives and job.key is None:
                self._begin(job.id)

    def add(self, jobs: Sequence[NewJob], answers: Sequence[Added]) -> None:
        for job, added in zip(jobs, answers, strict=True):
            if added.created:
                if job.id in self.lives:
                    self._object_to(f"job {job.id} was created twice")
                self._begin(job.id)
            elif added.record.id not in self.lives:
                self._object_to(f"job {added.record.id} is said to be there, and nobody stored it")

    def _begin(self, job_id: str) -> None:
        self.lives[job_id] = Life()
        self.live.add(job_id)

    def tick(self, tick: Tick, answer: Ticked, now: int) -> None:
        for move, verdict in zip(tick.moves, answer.verdicts, strict=True):
            life = self.lives.get(move.job)
            if life is None:
                self._object_to(f"a move of job {move.job}, which nobody stored, was {verdict}")
            elif verdict is Verdict.ACCEPTED:
                self._accepted(tick.worker, move, life, now)
            else:
                self._refused(tick.worker, move, life, now)
        for record in answer.claimed:
            self._claimed(tick, record, now)

    def _accepted(self, worker: str, move: Move, life: Life, now: int) -> None:
        is_current = life.is_leased and life.token == move.token
        has_ended = life.until <= now
        if move.outcome is None:
            if not is_current or life.worker != worker or (has_ended and not life.is_started):
                self._object(move.job, life, f"a start with token {move.token} by {worker} was accepted")
            life.is_started = True
            return
        if not is_current:
            ending = life.endings.get(move.token)
            if ending is None or ending != (move.outcome, worker):
                self._object(move.job, life, f"{move.outcome} with token {move.token} was accepted")
            return
        if move.if_expired and not has_ended:
            self._object(move.job, life, f"it was taken back {life.until - now} µs before its lease ended")
        if not move.if_expired and life.worker != worker:
            self._object(move.job, life, f"{move.outcome} by {worker} was accepted")
        self.takeovers += move.if_expired
        self._end(move, worker, life)
        self.stored(move.children)

    def _end(self, move: Move, worker: str, life: Life) -> None:
        assert move.outcome is not None
        life.endings[move.token] = (move.outcome, worker)
        life.is_leased = life.is_started = False
        state = move.path[-1]
        if state is State.SUCCESS:
            self.completions += 1
            if life.generation in life.completed:
                self._object(move.job, life, "it was completed twice")
            life.completed.add(life.generation)
        if state in FINISHED:
            self._finish(move.job, life)

    def _finish(self, job_id: str, life: Life) -> None:
        life.is_live = False
        self.live.discard(job_id)

    def _refused(self, worker: str, move: Move, life: Life, now: int) -> None:
        self.refusals += 1
        is_current = life.is_leased and life.token == move.token
        if not is_current:
            return
        is_due = life.until <= now if move.if_expired else life.worker == worker
        if is_due and (move.outcome is not None or life.until > now):
            self._object(move.job, life, f"{move.outcome or 'a start'} with its token was refused")

    def _claimed(self, tick: Tick, record: JobRecord, now: int) -> None:
        life = self.lives.get(record.id)
        if life is None:
            # One with a key, stored along with something else.
            life = self.lives[record.id] = Life()
            self.live.add(record.id)
        if tick.repeat and life.is_leased and (life.token, life.worker) == (record.token, tick.worker):
            return
        if not life.is_live:
            self._object(record.id, life, f"it was given to {tick.worker} though it is finished")
        if life.is_leased:
            self._object(record.id, life, f"it was given to {tick.worker} as well")
        if record.token <= life.token:
            self._object(record.id, life, f"its next token is {record.token}")
        life.token, life.worker = record.token, tick.worker
        life.until = record.lease_until or 0
        life.is_leased, life.is_started = True, False
        if life.until <= now:
            self._object(record.id, life, "its lease has ended when it begins")

    def extend(self, worker: str, extensions: Sequence[Extension], answers: Sequence[Held], now: int) -> None:
        for extension, held in zip(extensions, answers, strict=True):
            life = self.lives[extension.job]
            is_current = life.is_leased and (life.token, life.worker) == (extension.token, worker)
            is_held = is_current and life.until > now
            if is_held == (held is Held.LOST):
                self._object(extension.job, life, f"to {worker} with {extension.token} it is {held}")
            if is_held:
                life.until = max(life.until, now + extension.lease)
                life.is_started = life.is_started or extension.elapsed is not None

    def edit(self, job_id: str, edit: Edit, answer: JobRecord | None) -> None:
        if answer is None or not edit.path:
            return
        life = self.lives[job_id]
        if life.is_leased:
            self._object(job_id, life, f"it was made {answer.state} while it is leased")
        if edit.path[0] in FINISHED:
            life.generation += 1
            life.is_live = True
            self.live.add(job_id)
        elif edit.path[-1] in FINISHED:
            self._finish(job_id, life)

    def _object(self, job_id: str, life: Life, what: str) -> None:
        lease = f"leased to {life.worker} until {life.until}" if life.is_leased else "not leased"
        self._object_to(f"job {job_id}, token {life.token}, {lease}: {what}")

    def compare(self, records: Iterable[JobRecord]) -> None:
        """Objects if what is stored in the end is not what was accepted."""
        stored = {record.id: record for record in records}
        for job_id, life in self.lives.items():
            record = stored.get(job_id)
            if record is None:
                self._object(job_id, life, "it is gone")
            elif record.token != life.token:
                self._object(job_id, life, f"it is stored with token {record.token}")
            elif (record.state in FINISHED) == life.is_live:
                self._object(job_id, life, f"it is stored as {record.state}")

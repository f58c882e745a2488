"""Random work with limits, sequences, links and fair keys, on two stores at once, that must answer alike."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.model.flow import LimitRecord, NewFlow, Scope
from holdfast.model.lifecycle import (
    DEAD_LETTERED,
    FAILED_FOR_GOOD,
    REPLAYED,
    RETRIED,
    RETURNED,
    SUCCEEDED,
    WAITING,
    Ending,
    Path,
    State,
)
from holdfast.model.records import Edit, JobRecord, Move, NewJob, Query, Tick, Ticked, Want
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.testing import ManualClock

QUEUES, TASKS, KEYS, SEQUENCES = ("a", "b"), ("t", "u"), ("k", "l"), ("s", "z")
WORKERS = ("ann", "bob")
ENDS: tuple[tuple[Path, Ending], ...] = (
    (SUCCEEDED, Ending.SUCCESS),
    (SUCCEEDED, Ending.SUCCESS),
    (SUCCEEDED, Ending.SUCCESS),
    (RETRIED, Ending.RETRY),
    (RETURNED, Ending.RELEASED),
    (DEAD_LETTERED, Ending.FAILED),
    (FAILED_FOR_GOOD, Ending.FAILED),
)
EVERYTHING = Query(limit=10_000)


@dataclass
class FlowRun:
    """One run. Every call goes to all sessions, and their answers are compared.

    It has fair keys or limits: a rank depends on which jobs are ready, and a store may leave one parked that
    nobody could claim.
    """

    sessions: list[Session]
    clock: ManualClock
    random: Random
    is_fair: bool
    made: int = 0
    seq: int = 0
    jobs: dict[str, JobRecord] = field(default_factory=dict[str, JobRecord])

    async def step(self) -> None:
        acts = (self.add, self.add, self.tick, self.tick, self.tick, self.change, self.limit, self.pass_time)
        await self.random.choice(acts)()
        await self.look()

    async def ask(self, part: str, call: str, *args: Any) -> Any:
        answers = [await getattr(getattr(each, part), call)(*args) for each in self.sessions]
        for other in answers[1:]:
            assert answers[0] == other, f"{part}.{call}"
        return answers[0]

    def new_job(self) -> NewJob:
        choice, is_so = self.random.choice, self.is_so
        self.made += 1
        known = [*self.jobs, "unknown"]
        flow = NewFlow(
            limit_key=choice(KEYS) if is_so(0.5) else None,
            fair_key=choice(KEYS) if self.is_fair and is_so(0.5) else None,
            sequence=choice(SEQUENCES) if is_so(0.3) else None,
            halts=is_so(0.3),
            after=tuple(dict.fromkeys(choice(known) for _ in range(choice([1, 2])))) if is_so(0.2) else (),
            after_any=is_so(0.5),
            before=choice(known) if is_so(0.2) else None,
            held=is_so(0.05),
            expires=choice([SECOND, 5 * SECOND]) if is_so(0.1) else None,
        )
        return NewJob(
            id=f"018f0000-0000-7000-8000-{self.made:012x}",
            task=choice(TASKS),
            queue=choice(QUEUES),
            payload=b"[]",
            priority=choice([0, 0, 0, 1, -1]),
            delay=choice([0, 0, 0, 0, SECOND]),
            flow=flow if is_so(0.7) else None,
            fresh=is_so(0.5),
        )

    def is_so(self, share: float) -> bool:
        return self.random.random() < share

    async def add(self) -> None:
        jobs = [self.new_job() for _ in range(self.random.choice([1, 1, 2, 5]))]
        await self.ask("jobs", "add", jobs)

    async def tick(self) -> None:
        random = self.random
        worker = random.choice(WORKERS)
        held = [job for job in self.jobs.values() if job.worker == worker]
        moves = [self._end(job) for job in held if self.is_so(0.5)]
        want = Want(
            queues=random.choice([("a", "b"), ("b", "a"), ("a",)]),
            tasks=frozenset(random.choice([("t", "u"), ("t", "u"), ("u",)])),
            limit=random.choice([1, 2, 3, 10]),
            lease=1_000 * SECOND,
        )
        self.seq += 1
        tick = Tick(worker=worker, seq=self.seq, moves=moves, want=want if self.is_so(0.9) else None)
        answers = [_compared(await each.jobs.tick(tick)) for each in self.sessions]
        for other in answers[1:]:
            assert answers[0] == other, f"{tick}:\n{answers[0]}\n{other}"

    def _end(self, job: JobRecord) -> Move:
        path, outcome = self.random.choice(ENDS)
        if job.state is State.RUNNING and path == RETURNED:
            path, outcome = SUCCEEDED, Ending.SUCCESS
        children = (self.new_job(),) if self.is_so(0.1) else ()
        delay = 0 if outcome is Ending.RETRY else None
        return Move(
            job=job.id,
            token=job.token,
            path=path,
            outcome=outcome,
            delay=delay,
            failures=1,
            children=children,
        )

    async def change(self) -> None:
        if not self.jobs:
            return
        random = self.random
        job = random.choice(list(self.jobs.values()))
        act = random.choice(["delete", "cancel", "edit", "replay", "release", "proceed", "prune"])
        if act == "delete":
            await self.ask("jobs", "delete", job.id)
        elif act == "prune":
            await self.ask("jobs", "prune", SECOND, 100)
        elif act == "release":
            await self.ask("flow", "release", job.id)
        elif act == "proceed":
            await self.ask("flow", "proceed", random.choice(SEQUENCES))
        elif act == "replay":
            dead = [each for each in self.jobs.values() if each.state is State.DLQ]
            for each in dead[:1]:
                await self._edit(each, Edit(path=REPLAYED))
        elif act == "cancel" and job.state in WAITING:
            await self._edit(job, Edit(path=(job.state, State.CANCELLED)))
        else:
            edits = (Edit(queue=random.choice(QUEUES)), Edit(priority=random.choice([0, 1])), Edit(delay=0))
            await self._edit(job, random.choice(edits))

    async def _edit(self, job: JobRecord, edit: Edit) -> None:
        answers = [_plain(await each.jobs.edit(job.id, job.version, edit)) for each in self.sessions]
        for other in answers[1:]:
            assert answers[0] == other, f"{edit}:\n{answers[0]}\n{other}"

    async def limit(self) -> None:
        choice = self.random.choice
        scope = choice(list(Scope))
        name = choice({Scope.QUEUE: QUEUES, Scope.KEY: KEYS}.get(scope, TASKS))
        if self.is_so(0.3):
            await self.ask("flow", "remove", scope, name)
            return
        if self.is_fair:
            await self.ask("flow", "put", [LimitRecord(scope=scope, name=name, weight=choice([0.5, 3.0]))])
            return
        fields: dict[str, Any] = choice(
            [
                {"concurrency": choice([0, 1, 2, 5])},
                {"concurrency": choice([1, 2])},
                {"rate": 1, "period": choice([SECOND, 3 * SECOND]), "burst": choice([1, 2])},
                {"paused": True},
                {"weight": 2.0},
            ]
        )
        await self.ask("flow", "put", [LimitRecord(scope=scope, name=name, **fields)])

    async def pass_time(self) -> None:
        self.clock.advance(self.random.choice([0.0, 0.5, 1.0, 3.0]))

    async def look(self) -> None:
        """What is seen after each step; where a job is parked is seen by those who claim next."""
        found = [{job.id: _plain(job) for job in await each.jobs.find(EVERYTHING)} for each in self.sessions]
        for other in found[1:]:
            for job_id in found[0].keys() | other.keys():
                assert found[0].get(job_id) == other.get(job_id), job_id
        self.jobs = {job_id: job for job_id, job in found[0].items() if job is not None}
        await self.ask("flow", "limits")
        await self.ask("flow", "halted")
        await self.ask("flow", "overdue", 100)
        for job_id in self.random.sample(list(self.jobs), min(3, len(self.jobs))):
            await self.ask("flow", "awaited", job_id)
            await self.ask("flow", "before", job_id, None, 10)


def _plain(job: JobRecord | None) -> JobRecord | None:
    """The job without where it is parked: that may be told by either of two gates that are closed."""
    if job is not None and job.flow is not None and job.flow.parked not in {None, "after"}:
        job.flow = replace(job.flow, parked=None)
        job.flow = None if job.flow == type(job.flow)() else job.flow
    return job


def _compared(ticked: Ticked) -> tuple[Any, ...]:
    return ticked.verdicts, ticked.claimed, ticked.paused, ticked.paused_tasks

"""What a claim takes is what one would take who looks at every job that is due, in order, each time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from holdfast.engine.ids import new_id
from holdfast.model import lifecycle
from holdfast.model.flow import LimitRecord, NewFlow, Scope
from holdfast.model.lifecycle import Ending, State
from holdfast.model.records import Edit, JobRecord, Move, NewJob, Tick, Want, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock

QUEUES = ("a", "b")
TASKS = ("x", "y")
KEYS = (None, "k", "k", "l")
GATES = [
    (Scope.QUEUE, "a"),
    (Scope.QUEUE, "b"),
    (Scope.TASK, "x"),
    (Scope.TASK, "y"),
    (Scope.KEY, "k"),
    (Scope.EACH_KEY, "x"),
    (Scope.EACH_KEY, "y"),
]


@dataclass
class Model:
    """The jobs, leases and limits in plain lists, and a claim that looks at all of them."""

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    leases: dict[str, JobRecord] = field(default_factory=dict)
    limits: dict[tuple[Scope, str], LimitRecord] = field(default_factory=dict)
    last: dict[tuple[Scope, str], int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def claim(self, queues: Sequence[str], tasks: frozenset[str], limit: int, now: int) -> list[str]:
        taken: list[str] = []
        for queue in queues:
            waiting = [job for job in self.jobs.values() if job.id not in self.leases]
            due = [job for job in waiting if job.queue == queue and job.task in tasks and job.due <= now]
            for job in sorted(due, key=lambda job: (job.priority, job.due, job.id)):
                if len(taken) < limit and self._may_pass(job, now):
                    self._pass(job, now)
                    taken.append(job.id)
        return taken

    def _limits_of(self, job: JobRecord) -> list[tuple[tuple[Scope, str], LimitRecord]]:
        found = [(gate, self.limits.get(gate)) for gate in ((Scope.QUEUE, job.queue), (Scope.TASK, job.task))]
        if job.flow is not None and job.flow.limit_key is not None:
            gate = (Scope.KEY, job.flow.limit_key)
            found.append((gate, self.limits.get(gate) or self.limits.get((Scope.EACH_KEY, job.task))))
        return [(gate, limit) for gate, limit in found if limit is not None]

    def _may_pass(self, job: JobRecord, now: int) -> bool:
        sequence = _sequence(job)
        if sequence is not None:
            if any(_sequence(other) == sequence for other in self.leases.values()):
                return False
            if next(each for each in self.order if _sequence(self.jobs.get(each)) == sequence) != job.id:
                return False
        for gate, limit in self._limits_of(job):
            running = sum(_is_at(other, gate) for other in self.leases.values())
            if limit.paused or (limit.concurrency is not None and running >= limit.concurrency):
                return False
            last = max(self.last.get(gate, 0), now)
            if limit.interval and last + limit.interval > now + limit.burst * limit.interval:
                return False
        return True

    def _pass(self, job: JobRecord, now: int) -> None:
        for gate, limit in self._limits_of(job):
            if limit.interval:
                self.last[gate] = max(self.last.get(gate, 0), now) + limit.interval
        self.leases[job.id] = job


def _sequence(job: JobRecord | None) -> str | None:
    return None if job is None or job.flow is None else job.flow.sequence


def _is_at(job: JobRecord, gate: tuple[Scope, str]) -> bool:
    scope, name = gate
    if scope is Scope.QUEUE:
        return job.queue == name
    if scope is Scope.TASK:
        return job.task == name
    return job.flow is not None and job.flow.limit_key == name


class Run:
    """Does the same to the store and to the model, by chance."""

    def __init__(self, session: Session, clock: ManualClock, chance: random.Random) -> None:
        self.session = session
        self.clock = clock
        self.chance = chance
        self.model = Model()
        self.seq = 0
        self.steps: dict[str, float] = {
            "add": 2,
            "claim": 4,
            "end": 4,
            "change": chance.choice((1, 3)),
            "wait": 1,
        }
        self.steps["limit"] = chance.choice((0.1, 2))
        self.most = chance.choice((2, 8))
        self.rates = chance.choice(((None,), (None, None, 1, 3)))
        self.sequences = chance.choice(((None,), (None, None, None, "s")))

    async def add(self) -> None:
        draw = self.chance.choice
        new = [
            NewJob(
                id=new_id(),
                task=draw(TASKS),
                queue=draw(QUEUES),
                payload=b"{}",
                priority=draw((0, 0, 1)),
                delay=draw((0, 0, 0, SECOND)),
                flow=NewFlow(limit_key=draw(KEYS), sequence=draw(self.sequences)),
            )
            for _ in range(self.chance.randrange(1, self.most))
        ]
        for added in await self.session.jobs.add(new):
            self.model.jobs[added.record.id] = added.record
            self.model.order.append(added.record.id)

    async def claim(self, *moves: Move) -> None:
        queues = self.chance.sample(QUEUES, self.chance.randrange(1, 3))
        tasks = frozenset(self.chance.sample(TASKS, self.chance.randrange(1, 3)))
        limit = self.chance.randrange(4)
        self.seq += 1
        want = Want(queues=tuple(queues), tasks=tasks, limit=limit, lease=3600 * SECOND)
        ticked = await self.session.jobs.tick(Tick(worker="w", seq=self.seq, moves=list(moves), want=want))
        expected = self.model.claim(queues, tasks, limit, self.clock())
        assert [job.id for job in ticked.claimed] == expected
        for job in ticked.claimed:
            self.model.jobs[job.id] = self.model.leases[job.id] = job

    async def end(self) -> None:
        if not self.model.leases:
            return
        job = self.model.leases.pop(self.chance.choice(list(self.model.leases)))
        path, outcome = self.chance.choice(
            [(lifecycle.SUCCEEDED, Ending.SUCCESS), (lifecycle.RETURNED, Ending.RELEASED)]
        )
        if outcome is Ending.SUCCESS:
            self.forget(job.id)
        await self.claim(Move(job=job.id, token=job.token, path=path, outcome=outcome, elapsed=None))

    async def change(self) -> None:
        waiting = [job_id for job_id in self.model.jobs if job_id not in self.model.leases]
        if not waiting:
            return
        job = self.model.jobs[self.chance.choice(waiting)]
        kind = self.chance.choice(("cancel", "delete", "edit"))
        if kind == "delete":
            assert await self.session.jobs.delete(job.id)
            self.forget(job.id)
            return
        record = await self.session.jobs.get(job.id)
        assert record is not None
        edit = Edit(queue=self.chance.choice(QUEUES), priority=self.chance.choice((0, 1)))
        if kind == "cancel":
            edit = Edit(path=(record.state, State.CANCELLED))
            self.forget(job.id)
        changed = await self.session.jobs.edit(job.id, record.version, edit)
        assert changed is not None
        if kind == "edit":
            self.model.jobs[job.id] = changed

    async def limit(self) -> None:
        scope, name = self.chance.choice(GATES)
        if self.chance.random() < 0.3:
            await self.session.flow.remove(scope, name)
            self.model.limits.pop((scope, name), None)
            return
        rate = self.chance.choice(self.rates)
        limit = LimitRecord(
            scope=scope,
            name=name,
            concurrency=self.chance.choice((None, 1, 2)),
            rate=rate,
            period=SECOND if rate else 0,
            paused=self.chance.random() < 0.1,
        )
        await self.session.flow.put([limit])
        self.model.limits[scope, name] = limit

    def forget(self, job_id: str) -> None:
        del self.model.jobs[job_id]
        self.model.order.remove(job_id)

    async def step(self) -> None:
        [kind] = self.chance.choices(list(self.steps), list(self.steps.values()))
        if kind == "wait":
            self.clock.advance(self.chance.choice((0.2, 0.4, 1)))
        else:
            await getattr(self, kind)()


@pytest.mark.parametrize("seed", range(60))
async def test_what_may_run_is_taken_in_order_whatever_was_parked_and_freed_before(seed: int) -> None:
    clock = ManualClock()
    session = await MemoryStore(clock).connect("default")
    worker = WorkerRecord(id="w", host="h", pid=1, queues=QUEUES, tasks=TASKS, concurrency=1)
    await session.fleet.register(worker, 3600 * SECOND)
    run = Run(session, clock, random.Random(seed))
    for _ in range(5):
        await run.limit()
    for _ in range(150):
        await run.step()

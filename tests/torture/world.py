"""A make-believe campaign that keeps every promise: what its processes would write, and the dump."""

from __future__ import annotations

from copy import copy
from random import Random

from msgspec.structs import replace

from holdfast.torture.dump import (
    Attempt,
    Dump,
    Entry,
    Event,
    Firing,
    Group,
    Job,
    Limits,
    Schedule,
    Store,
)
from holdfast.torture.history import (
    Call,
    Calm,
    Consumed,
    Done,
    Effect,
    End,
    Failed,
    Fault,
    Fenced,
    Freed,
    Granted,
    Led,
    Line,
    Lost,
    Start,
    Unknown,
    Verdict,
)

LEASE = 2_000_000
SWEEP = 500_000
STORE_AHEAD = 1_700_000_000_000_000
SPAN = 600_000_000
WORKERS = 4
LEDGER = "ledger"


class World:
    """What happened so far. Every thread of it has a time of its own; all are sorted in the end."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.records: list[Line] = []
        self.jobs: list[Job] = []
        self.ledger: list[Entry] = []
        self.events: list[Event] = []
        self.schedules: list[Schedule] = []
        self._ops: dict[str, int] = {}

    def later(self, at: int, most: int = 100_000) -> int:
        return at + self.random.randint(1_000, most)

    def write(self, who: str, at: int, record: Line) -> None:
        record.who, record.at = who, at
        self.records.append(record)

    def call(self, who: str, at: int, call: Call) -> int:
        call.op = self._ops[who] = self._ops.get(who, 0) + 1
        self.write(who, at, call)
        return call.op

    def history(self) -> list[Line]:
        return sorted(self.records, key=lambda record: record.at)

    def dump(self) -> Dump:
        stats: dict[str, int] = {}
        for job in self.jobs:
            stats[job.state] = stats.get(job.state, 0) + 1
        return Dump(
            store=Store(kind="make-believe", durability="none"),
            limits=Limits(lease=LEASE, sweep=SWEEP, attempts=3, losses=5, settle=20_000_000),
            jobs=self.jobs,
            ledger=self.ledger,
            ledger_tasks=(LEDGER,),
            events=self.events,
            groups=[Group(name="billing")],
            schedules=self.schedules,
            stats=stats,
            settled_after=3_000_000,
            canary="canary-4711",
        )


def make_world(seed: int, jobs: int = 40) -> World:
    world = World(Random(seed))
    for number in range(jobs):
        _ask_for_job(world, number)
    _emit(world, aggregates=3, each=max(5, jobs // 10))
    _contend(world, grants=max(8, jobs // 5))
    _fire(world, times=max(5, jobs // 10))
    for term in range(4):
        world.write(f"scheduler-{term}-1", SPAN // 4 * term + 1, Led(term=term + 1))
    world.write("nemesis", SPAN, Fault(name="lost reply", target="store", phase="once", count=7))
    world.write("nemesis", SPAN + 60_000_000, Calm())
    return world


def _ask_for_job(world: World, number: int) -> None:
    """Enqueues once or more often; the call may be lost, refused, or repeated."""
    random, who = world.random, f"producer-{number % 2}-1"
    at = random.randrange(SPAN)
    job_id, key = f"j{number:06}", f"k{number:06}" if random.random() < 0.5 else None
    task = random.choice(["plain", LEDGER])
    ask = Call(verb="enqueue", task=task, key=key, job=None if key else job_id)
    fate = random.random()
    if fate < 0.1:
        op = world.call(who, at, copy(ask))
        world.write(who, world.later(at), Failed(op=op, error="StoreUnavailable"))
        return
    is_made = fate > 0.2
    if fate < 0.4:
        op = world.call(who, at, copy(ask))
        if fate < 0.3:
            at = world.later(at)
            world.write(who, at, Unknown(op=op, error="OutcomeUnknown"))
    for _ in range(random.randint(1, 2) if fate >= 0.3 else 0):
        at = world.later(at)
        by_hand = replace(ask, verb="cli", does="enqueue")
        op = world.call(who, at, by_hand if random.random() < 0.1 else copy(ask))
        at = world.later(at)
        world.write(who, at, Done(op=op, job=job_id, created=True))
    if is_made:
        job = Job(
            id=job_id, task=task, key=key, state="scheduled", run=0, failures=0, lost=0, token=0, version=1,
            created=STORE_AHEAD + at,
        )  # fmt: skip
        world.jobs.append(job)
        _work(world, job, world.later(at, 5_000_000))


def _work(world: World, job: Job, at: int) -> None:
    """Attempts until one completes, or the job is given up, cancelled or replayed."""
    random = world.random
    while job.state not in {"success", "cancelled"}:
        outcome = random.choices(
            ["success", "retry", "lost", "released", "cancelled"], [6, 2, 3, 1, 1]
        )[0]  # fmt: skip
        if outcome == "retry" and job.failures == 2:
            outcome = "failed"
        if outcome == "lost" and job.lost == 4:
            outcome = "success"
        at = _attempt(world, job, at, outcome)
        if outcome == "failed":
            if random.random() < 0.5:
                return
            at = _replay(world, job, at)


def _replay(world: World, job: Job, at: int) -> int:
    at = world.later(at, 5_000_000)
    op = world.call("operator-0-1", at, Call(verb="replay", job=job.id))
    job.state, job.failures, job.lost, job.version = "scheduled", 0, 0, job.version + 1
    at = world.later(at)
    world.write("operator-0-1", at, Done(op=op, job=job.id, version=job.version))
    return at


def _attempt(world: World, job: Job, at: int, outcome: str) -> int:
    """One attempt from claim to verdict; gives when the job is free again."""
    random, number = world.random, world.random.randrange(WORKERS)
    who = f"worker-{number}-1"
    claimed = STORE_AHEAD + at
    job.run, job.version = job.run + 1, job.version + 1
    job.token = token = max(job.token + 1, claimed)
    at = begun = world.later(at)
    world.write(who, at, Start(job=job.id, task=job.task, run=job.run, token=token))
    if random.random() < 0.3:
        at = world.later(at)
        world.write(who, at, Effect(job=job.id, run=job.run, token=token))
    if outcome == "lost":
        return _lose(world, job, who, begun, at)
    at = world.later(at)
    told = "failure" if outcome == "failed" else "lost" if outcome == "released" else outcome
    world.write(who, at, End(job=job.id, run=job.run, token=token, outcome=told))  # type: ignore[arg-type]
    at = world.later(at)
    _close(job, token, begun, at, outcome, who)
    job.failures += outcome in {"retry", "failed"}
    job.state = {"retry": "retry", "released": "scheduled", "failed": "dlq"}.get(outcome, outcome)
    if outcome == "success" and job.task == LEDGER:
        world.ledger.append(Entry(job=job.id, token=token))
    at = world.later(at)
    world.write(who, at, Verdict(job=job.id, token=token, outcome=outcome, accepted=True))  # type: ignore[arg-type]
    return at


def _lose(world: World, job: Job, who: str, begun: int, at: int) -> int:
    """The holder is killed, or frozen and then late with its report."""
    token, run = job.token, job.run
    frozen = world.random.random() < 0.5
    world.write("nemesis", at + 1, Fault(name="freeze" if frozen else "kill", target=who, phase="once"))
    free = at + LEASE + world.random.randrange(SWEEP)
    _close(job, token, begun, free, "superseded" if frozen else "lost", who)
    job.lost, job.state = job.lost + 1, "scheduled"
    world.write(
        "worker-0-1", world.later(free), Verdict(job=job.id, token=token, outcome="lost", accepted=True)
    )
    if frozen:
        late = free + world.random.randrange(2 * LEASE)
        world.write(who, late, End(job=job.id, run=run, token=token, outcome="success"))
        late = world.later(late)
        world.write(who, late, Verdict(job=job.id, token=token, outcome="success", accepted=False))
    return world.later(free)


def _close(job: Job, token: int, begun: int, at: int, outcome: str, who: str) -> None:
    attempt = Attempt(
        run=job.run, token=token, worker=f"{who}@host", started=STORE_AHEAD + begun,
        finished=STORE_AHEAD + at, outcome=outcome,
    )  # fmt: skip
    job.attempts = (*job.attempts, attempt)
    job.finished, job.version = STORE_AHEAD + at, job.version + 1


def _emit(world: World, aggregates: int, each: int) -> None:
    """Events of a few aggregates, some rolled back, told in order to one group, some of them again."""
    at = 1
    for number in range(aggregates * each):
        at = world.later(at)
        aggregate, version = f"a{number % aggregates}", number // aggregates + 1
        op = world.call("producer-0-1", at, Call(verb="emit", event=f"e{number}", aggregate=aggregate))
        at = world.later(at)
        if world.random.random() < 0.9:
            world.write("producer-0-1", at, Done(op=op))
        else:
            world.write("producer-0-1", at, Unknown(op=op, error="OutcomeUnknown"))
        world.events.append(Event(position=number + 1, id=f"e{number}", aggregate=aggregate, version=version))
        for again in range(world.random.choice([1, 1, 1, 2])):
            world.write(
                "consumer-0-1",
                at + 50_000 + again,
                Consumed(
                    group="billing", event=f"e{number}", aggregate=aggregate, version=version, again=again > 0
                ),
            )
        at = world.later(at + 60_000)
        op = world.call(
            "producer-0-1", at, Call(verb="emit_rolled_back", event=f"r{number}", aggregate=aggregate)
        )
        world.write("producer-0-1", world.later(at), Done(op=op))


def _contend(world: World, grants: int) -> None:
    """One lock, taken by turns; every third holder freezes, is late, and is refused."""
    at, order = 1, 0
    for number in range(grants):
        who, token = f"locker-{number % 3}-1", 100 + number
        op = world.call(who, at, Call(verb="lock", lock="l"))
        at = world.later(at)
        world.write(who, at, Granted(lock="l", token=token, op=op))
        at, order = world.later(at), order + 1
        world.write(who, at, Fenced(lock="l", token=token, accepted=True, order=order))
        if number % 3 == 1:
            order += 1
            world.write(who, at + 1, Fenced(lock="l", token=token - 1, accepted=False, order=order))
            world.write(who, at + 2, Lost(lock="l", token=token))
        at = world.later(at)
        world.write(who, at, Freed(lock="l", token=token, held=number % 3 != 1))
        at = world.later(at)


def _fire(world: World, times: int) -> None:
    first, interval = STORE_AHEAD + 1_000_000, 5_000_000
    for number in range(times):
        job = Job(
            id=f"f{number:06}", task="plain", state="scheduled", run=0, failures=0, lost=0, token=0,
            version=1, created=first + number * interval,
            firing=Firing(schedule="nightly", due=first + number * interval),
        )  # fmt: skip
        world.jobs.append(job)
        _attempt(world, job, first + number * interval - STORE_AHEAD, "success")
    last = first + (times - 1) * interval
    world.schedules.append(Schedule(name="nightly", first=first, interval=interval, last=last))

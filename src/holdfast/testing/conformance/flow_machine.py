"""The machine with flow control: limits, sequences, fair keys, jobs that wait for jobs, in any order.

class MyMachine(FlowMachine, ComparedMachine):
    ...

What is parked is where it was held back when it was last looked at, so stores may differ there, but for jobs
that wait for others; and when to ask again is told as early as each likes. Ranks depend on what is ready, and
so on what is parked: fair keys are drawn only where nothing is held back.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from msgspec.structs import replace

from holdfast.model.flow import AFTER, LimitRecord, Scope, gate, or_none, same
from holdfast.model.lifecycle import LEASED, SUCCEEDED, WAITING, Ending, State
from holdfast.model.records import Added, JobRecord, Move, NewJob, Tick, Ticked, Want
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.testing.conformance import draws, flow_draws
from holdfast.testing.conformance.machine import EVERYTHING, StoreMachine

T = TypeVar("T")

ALL = Want(queues=draws.QUEUES, tasks=frozenset(draws.TASKS), limit=4, lease=60 * SECOND)
ROUNDS = 500


class FlowMachine(StoreMachine):
    """Checks also that nothing passes a gate that should not, and that nothing is forgotten there."""

    def __init__(self) -> None:
        super().__init__()
        self.is_fair = False
        self.limits: dict[tuple[Scope, str], LimitRecord] = {}
        self.next_dues: list[int | None] = []
        """What the stores told in the last tick."""

    def ask(self, call: Callable[[Session], Awaitable[T]]) -> T:
        self.next_dues = []

        async def comparable(session: Session) -> T:
            answer = await call(session)
            if isinstance(answer, Ticked):
                self.next_dues.append(answer.next_due)
                answer.next_due = None
            _make_comparable(answer)
            return answer

        return super().ask(comparable)

    @initialize(
        is_fair=st.sampled_from([False, False, False, True]),
        jobs=st.lists(flow_draws.flow_jobs, min_size=4, max_size=8),
        limits=st.lists(flow_draws.limits, max_size=3),
    )
    def begin_with_flow(self, is_fair: bool, jobs: list[NewJob], limits: list[LimitRecord]) -> None:
        self.is_fair = is_fair
        self.change_the_fleet(queue="", worker="ann", change="register")
        self.put(limits=limits)
        self.add_with_flow(jobs=jobs)

    @rule(jobs=st.lists(flow_draws.flow_jobs, min_size=1, max_size=5))
    def add_with_flow(self, jobs: list[NewJob]) -> None:
        self.add(jobs=self._fitting(jobs))

    def _fitting(self, jobs: list[NewJob]) -> list[NewJob]:
        without = {"sequence": None} if self.is_fair else {"fair_key": None}
        return [replace(job, flow=replace(job.flow, **without)) if job.flow else job for job in jobs]

    @rule(data=st.data(), worker=draws.workers, children=st.lists(flow_draws.flow_jobs, max_size=3))
    def end_with_children(self, data: st.DataObject, worker: str, children: list[NewJob]) -> None:
        """Ends what the worker holds, and adds what may wait for it; most of the moves are accepted."""
        held = [job for job in self.jobs.values() if job.worker == worker]
        moves = [data.draw(draws.ends_of(job.id, job.token)) for job in held[:3]]
        # Starts may come after the others, and what they add then stands after what became ready.
        ends = [move for move in moves if move.outcome is not None]
        if ends:
            ends[0].children = tuple(self._fitting(children))
        self.send(worker, moves, ALL)

    @rule(data=st.data(), worker=draws.workers, count=st.integers(1, 4))
    def work(self, data: st.DataObject, worker: str, count: int) -> None:
        """Ends some of what the worker holds, and claims."""
        held = [job for job in self.jobs.values() if job.worker == worker]
        self.send(worker, [data.draw(flow_draws.work_of(job.id, job.token)) for job in held[:count]], ALL)

    @rule(data=st.data(), worker=draws.workers)
    def work_on(self, data: st.DataObject, worker: str) -> None:
        """Ends all that the worker holds, and claims, a few times."""
        for _ in range(3):
            held = [job for job in self.ask(_all) if job.worker == worker]
            self.send(worker, [data.draw(flow_draws.work_of(job.id, job.token)) for job in held], ALL)

    @rule(limits=st.lists(flow_draws.limits, min_size=1, max_size=2))
    def put(self, limits: list[LimitRecord]) -> None:
        if self.is_fair:
            limits = [limit for limit in limits if not limit.holds_back]
        self.ask(lambda session: session.flow.put(limits))

    @rule(limit=flow_draws.limits, known=st.none() | flow_draws.limits)
    def swap(self, limit: LimitRecord, known: LimitRecord | None) -> None:
        """Puts it in the place of what stands there, after somebody else has tried who does not know that."""
        if self.is_fair and limit.holds_back:
            return
        target = limit.scope, limit.name
        found = self.ask(lambda session: session.flow.limits())
        stands = next((each for each in found if (each.scope, each.name) == target), None)
        if known is not None:
            known = replace(known, scope=limit.scope, name=limit.name)
        if not same(known, stands) and not same(limit, stands):
            assert not self.ask(lambda session: session.flow.swap(known, limit))
        assert self.ask(lambda session: session.flow.swap(stands, limit))

    @rule(after=st.none() | flow_draws.ids, limit=st.integers(1, 3))
    def ask_what_is_held(self, after: str | None, limit: int) -> None:
        held = self.ask(lambda session: session.flow.held(None, 100))
        assert all(self.jobs[job_id].state in WAITING for job_id in held)
        page = self.ask(lambda session: session.flow.held(after, limit))
        assert page == [job_id for job_id in held if after is None or job_id > after][:limit]

    @rule(place=flow_draws.places)
    def remove_limit(self, place: tuple[Scope, str]) -> None:
        self.ask(lambda session: session.flow.remove(*place))

    @rule(job_id=flow_draws.ids)
    def release(self, job_id: str) -> None:
        assert self.ask(lambda session: session.flow.release(job_id)) is (job_id in self.jobs)

    @rule(sequence=flow_draws.sequences)
    def proceed(self, sequence: str) -> None:
        self.ask(lambda session: session.flow.proceed(sequence))
        assert sequence not in self.ask(lambda session: session.flow.halted())

    @rule(job_id=flow_draws.ids, after=st.none() | flow_draws.ids, limit=st.integers(1, 3))
    def ask_what_is_before(self, job_id: str, after: str | None, limit: int) -> None:
        awaited = self.ask(lambda session: session.flow.awaited(job_id))
        before = self.ask(lambda session: session.flow.before(job_id, None, 100))
        page = self.ask(lambda session: session.flow.before(job_id, after, limit))
        assert (awaited is None) is (job_id not in self.jobs)
        if awaited is not None:
            ends = [end for _, end in before]
            assert (awaited.total, awaited.pending) == (len(ends), ends.count(None))
            assert awaited.unmet == sum(end is not None and end is not State.SUCCESS for end in ends)
        assert page == [link for link in before if after is None or link[0] > after][:limit]

    @rule(limit=st.integers(1, 4))
    def ask_what_is_overdue(self, limit: int) -> None:
        now = self.clock.now()
        expired = sorted(
            (job.flow.expires, job.id)
            for job in self.jobs.values()
            if job.flow and job.flow.expires is not None and job.flow.expires <= now
            if job.state in WAITING and job.run == 0
        )
        found = self.ask(lambda session: session.flow.overdue(limit))
        assert found == [job_id for _, job_id in expired[:limit]]

    @rule(worker=draws.workers)
    def sleep_as_long_as_told(self, worker: str) -> None:
        """Nothing can be claimed before the time that a tick without jobs told."""
        if self.send(worker, [], ALL).claimed:
            return
        left = max(told or 0 for told in self.next_dues)
        if left > 1:
            self.clock.advance((left - 1) / SECOND)
            assert not self.send(worker, [], ALL).claimed

    @invariant()
    def gates_are_as_they_were_put(self) -> None:
        limits = self.ask(lambda session: session.flow.limits())
        self.limits = {(limit.scope, limit.name): limit for limit in limits}
        assert limits == [self.limits[place] for place in sorted(self.limits)]
        leased = [job for job in self.ask(_all) if job.state in LEASED]
        for name, running in self.ask(_running).items():
            assert running == sum(name in _gates(job) for job in leased)
        for sequence in flow_draws.SEQUENCES:
            assert sum(job.flow is not None and job.flow.sequence == sequence for job in leased) <= 1

    def send(self, worker: str, moves: list[Move], want: Want | None, repeats: Tick | None = None) -> Ticked:
        known = len(self.leases)
        ticked = super().send(worker, moves, want, repeats)
        told = self.next_dues
        claimed = [job_id for job_id, _ in self.leases[known:]]
        for place, job_id in enumerate(claimed):
            # The order in which jobs are given back is not promised.
            later = (
                claimed[place + 1 :] if repeats is None else [other for other in claimed if other != job_id]
            )
            self._check_passage(job_id, later)
        self.next_dues = told
        return ticked

    def _check_passage(self, job_id: str, later: list[str]) -> None:
        """The job was just claimed, before those: its gates let it through, and it waits for nobody."""
        jobs = self.ask(_all)
        [job] = [job for job in jobs if job.id == job_id]
        for name, limit in self._limits_of(job).items():
            assert not limit.paused
            before = [each for each in jobs if each.state in LEASED and each.id not in later]
            leased = sum(name in _gates(each) for each in before)
            assert limit.concurrency is None or leased <= limit.concurrency
        awaited = self.ask(lambda session: session.flow.awaited(job_id))
        assert awaited is not None
        assert (awaited.pending, awaited.held) == (0, False)

    def _limits_of(self, job: JobRecord) -> dict[str, LimitRecord]:
        found: dict[str, LimitRecord] = {}
        for name in _gates(job):
            scope, _, rest = name.partition(":")
            limit = self.limits.get((Scope(scope), rest))
            if limit is None and scope == Scope.KEY:
                limit = self.limits.get((Scope.EACH_KEY, job.task))
            if limit is not None and limit.holds_back:
                found[name] = limit
        return found

    def counts(self, session: Session) -> Awaitable[dict[tuple[str, State], tuple[int, int]]]:
        return _counts(session)

    def is_counted_as_due(self, job: JobRecord) -> bool:
        return super().is_counted_as_due(job) or (job.state in WAITING and _parked(job) == AFTER)

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            super().teardown()

    def drain(self) -> None:
        """Works off everything; what is left then must have a reason."""
        for queue in draws.QUEUES:
            self.change_the_fleet(queue=queue, worker="", change="resume")
        self.change_the_fleet(queue="", worker="ann", change="register")
        for _ in range(ROUNDS):
            self.what_is_seen_fits_together()
            self.gates_are_as_they_were_put()
            leased = [job for job in self.jobs.values() if job.state in LEASED]
            for holder in sorted({job.worker or "" for job in leased}):
                self.send(holder, [_success(job) for job in leased if job.worker == holder], None)
            ticked = self.send("ann", [], ALL)
            if not leased and not ticked.claimed and 0 not in self.next_dues:
                break
        else:
            raise AssertionError("there is always more to do")
        self._check_what_is_left()

    def _check_what_is_left(self) -> None:
        now = self.clock.now()
        halted = self.ask(lambda session: session.flow.halted())
        left = [job for job in self.jobs.values() if job.state in WAITING]
        stuck = {
            job.flow.sequence
            for job in left
            if job.flow and (job.due > now or self._is_held(job) or job.flow.sequence in halted)
        }
        for job in left:
            sequence = None if job.flow is None else job.flow.sequence
            is_behind = sequence is not None and sequence in stuck
            assert job.due > now or is_behind or self._is_held(job), job

    def _is_held(self, job: JobRecord) -> bool:
        """Whether it waits for others, or a gate that no end of a job can open."""
        return _parked(job) == AFTER or any(
            limit.paused or limit.interval for limit in self._limits_of(job).values()
        )


def _success(job: JobRecord) -> Move:
    return Move(job=job.id, token=job.token, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=0)


def _gates(job: JobRecord) -> list[str]:
    names = [gate(Scope.QUEUE, job.queue), gate(Scope.TASK, job.task)]
    key = None if job.flow is None else job.flow.limit_key
    return names if key is None else [*names, gate(Scope.KEY, key)]


def _parked(job: JobRecord) -> str | None:
    return None if job.flow is None else job.flow.parked


async def _all(session: Session) -> list[JobRecord]:
    return await session.jobs.find(EVERYTHING)


async def _running(session: Session) -> dict[str, int]:
    gates = [name for name in flow_draws.GATES if not name.startswith(Scope.EACH_KEY)]
    return dict(zip(gates, [each.running for each in await session.flow.usage(gates)], strict=True))


async def _counts(session: Session) -> dict[tuple[str, State], tuple[int, int]]:
    """Counts, with what is parked among what is due."""
    lines = await session.jobs.count()
    return {(line.queue, line.state): (line.count, line.due + line.parked) for line in lines}


def _make_comparable(answer: object) -> None:
    """Takes out of an answer in what stores may differ."""
    if isinstance(answer, list):
        for each in cast(list[object], answer):
            _make_comparable(each)
    elif isinstance(answer, JobRecord) and answer.flow and answer.flow.parked != AFTER:
        answer.flow = or_none(replace(answer.flow, parked=None))
    elif isinstance(answer, Added):
        _make_comparable(answer.record)
    elif isinstance(answer, Ticked):
        _make_comparable(answer.claimed)

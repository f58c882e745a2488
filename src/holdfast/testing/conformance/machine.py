"""Random sequences of operations: invariants for any store, and comparison with the memory store.

For a store that takes its time from a callable:

    class MyMachine(ComparedMachine):
        def open_store(self, clock):
            return MyStore(clock=clock)

    TestMyMachine = MyMachine.TestCase
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from holdfast.model.errors import KeyConflict
from holdfast.model.lifecycle import FINISHED, LEASED, WAITING, State
from holdfast.model.records import (
    Edit,
    Held,
    JobRecord,
    Move,
    NewJob,
    Query,
    Tick,
    Ticked,
    Verdict,
    Want,
)
from holdfast.model.timing import SECOND
from holdfast.store import Session, Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance import draws
from holdfast.testing.conformance.case import worker_record
from holdfast.testing.conformance.oldest import check_oldest

T = TypeVar("T")

START = 1_800_000_000 * SECOND
LIFE = 1_000 * SECOND
EVERYTHING = Query(limit=10_000)


class StoreMachine(RuleBasedStateMachine):
    """Drives one store with every operation and checks what must hold whatever happened."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(START)
        self.runner = asyncio.Runner()
        self.stores: list[Store] = [self.open_store(self.clock), *self.references()]
        self.sessions: list[Session] = [self.runner.run(store.connect("machine")) for store in self.stores]
        self.jobs: dict[str, JobRecord] = {}
        """What was seen after the last step."""
        self.leases: list[tuple[str, int]] = []
        """Every (job, token) that was ever claimed."""
        self.holders: dict[tuple[str, int], str] = {}
        self.ticks: list[Tick] = []

    def open_store(self, clock: ManualClock) -> Store:
        """The store under test, which must take its time from the clock."""
        raise NotImplementedError

    def references(self) -> list[Store]:
        """Stores that must give the same answers."""
        return []

    def teardown(self) -> None:
        with self.runner:
            for session in self.sessions:
                self.runner.run(session.close())
            for store in self.stores:
                self.runner.run(store.close())

    def ask(self, call: Callable[[Session], Awaitable[T]]) -> T:
        """The answer of the store under test, provided that every reference gives the same."""

        async def all_answers() -> list[T | type[KeyConflict]]:
            return [await _answer(call, session) for session in self.sessions]

        first, *others = self.runner.run(all_answers())
        for other in others:
            assert first == other
        if first is KeyConflict:
            raise KeyConflict("as in every reference")
        return first  # type: ignore[return-value]

    @initialize(jobs=st.lists(draws.new_jobs, min_size=4, max_size=10))
    def begin(self, jobs: list[NewJob]) -> None:
        for worker in draws.WORKERS:
            self.change_the_fleet(queue="", worker=worker, change="register")
        self.add(jobs=jobs)

    @rule(data=st.data(), by=draws.steps, jumps=st.booleans())
    def pass_time(self, data: st.DataObject, by: int, jumps: bool) -> None:
        """Goes on by a step, or to where something ends or becomes due, or to just before."""
        now = self.clock.now()
        known = {instant for job in self.jobs.values() for instant in (job.lease_until, job.due) if instant}
        ahead = sorted(instant for instant in known if instant > now + 1)[:3]
        if ahead and jumps:
            by = data.draw(st.sampled_from(ahead)) - now - data.draw(st.sampled_from([0, 0, 1]))
        self.clock.advance(by / SECOND)

    @rule(jobs=st.lists(draws.new_jobs, min_size=1, max_size=5))
    def add(self, jobs: list[NewJob]) -> None:
        answers = self.ask(lambda session: session.jobs.add(jobs))
        created: set[str] = set()
        for job, answer in zip(jobs, answers, strict=True):
            is_new = job.id not in self.jobs and job.id not in created
            assert not answer.created or (is_new and answer.record.id == job.id)
            created |= {job.id} if answer.created else set()

    @rule(data=st.data(), worker=draws.workers, want=draws.wants)
    def claim(self, data: st.DataObject, worker: str, want: Want) -> None:
        """Ends some attempts of the worker, and claims; most of the moves are accepted."""
        held = [job for job in self.jobs.values() if job.worker == worker]
        ending = data.draw(st.lists(st.sampled_from(held), max_size=3)) if held else []
        self.send(worker, [data.draw(draws.ends_of(job.id, job.token)) for job in ending], want)

    @precondition(lambda self: bool(self.leases))
    @rule(data=st.data(), stranger=st.none() | draws.workers)
    def move_what_is_no_longer_ones_own(self, data: st.DataObject, stranger: str | None) -> None:
        """Sends old tokens, or current ones as the wrong worker; most of the moves are refused."""
        picked = data.draw(st.lists(st.sampled_from(self.leases[-8:]), min_size=1, max_size=3))
        worker = stranger or self.holders[picked[0]]
        self.send(worker, [data.draw(draws.ends_of(*lease)) for lease in picked], None)

    @precondition(lambda self: bool(self.leases))
    @rule(data=st.data(), want=st.none() | draws.wants)
    def send_strange_moves(self, data: st.DataObject, want: Want | None) -> None:
        """Sends wrong tokens, early reclaims and paths that do not exist; most of the moves are refused."""
        job_id, token = data.draw(st.sampled_from(self.leases[-8:]))
        holder = self.jobs[job_id].worker if job_id in self.jobs else None
        self.send(holder or "ann", [data.draw(draws.strange_of(job_id, token))], want)

    @precondition(lambda self: bool(self.ticks))
    @rule(data=st.data())
    def repeat_a_tick(self, data: st.DataObject) -> None:
        sent = data.draw(st.sampled_from(self.ticks[-6:]))
        self.send(sent.worker, sent.moves, sent.want, repeats=sent)

    @rule(data=st.data(), worker=draws.workers)
    def extend(self, data: st.DataObject, worker: str) -> None:
        held = [(job.id, job.token) for job in self.jobs.values() if job.worker == worker]
        known = [*held, *self.leases[-4:]]
        picked = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4)) if known else []
        extensions = [data.draw(draws.extensions_of(*lease)) for lease in picked]
        answers = self.ask(lambda session: session.jobs.extend(worker, extensions))
        for extension, answer in zip(extensions, answers, strict=True):
            job = self.jobs.get(extension.job)
            is_held = job is not None and (job.worker, job.token) == (worker, extension.token)
            is_live = job is not None and (job.lease_until or 0) > self.clock.now()
            assert (answer is Held.LOST) is not (is_held and is_live)

    @rule(data=st.data(), worker=draws.workers, limit=st.integers(1, 3))
    def reclaim(self, data: st.DataObject, worker: str, limit: int) -> None:
        found = self.ask(lambda session: session.jobs.expired(limit))
        ticked = self.send(worker, [data.draw(draws.reclaims_of(job.id, job.token)) for job in found], None)
        assert ticked.verdicts == [Verdict.ACCEPTED] * len(found)

    @rule(job_id=draws.ids, edit=draws.edits, behind=st.sampled_from([0, 0, 0, 1]))
    def edit(self, job_id: str, edit: Edit, behind: int) -> None:
        stored = self.jobs.get(job_id)
        version = stored.version - behind if stored else 1
        try:
            edited = self.ask(lambda session: session.jobs.edit(job_id, version, edit))
        except KeyConflict:
            edited = None
        current = self.ask(lambda session: session.jobs.get(job_id))
        assert current == (stored if edited is None else edited)
        assert edited is None or (edited.version == version + 1 and not behind)

    @rule(job_id=draws.ids, older_than=draws.ages)
    def remove(self, job_id: str, older_than: int | None) -> None:
        if older_than is not None:
            self.ask(lambda session: session.jobs.prune(older_than, 1_000))
            return
        is_gone = self.ask(lambda session: session.jobs.delete(job_id))
        assert is_gone is (job_id not in self.jobs or self.jobs[job_id].state not in LEASED)

    @rule(queue=draws.queues, worker=draws.workers, change=draws.fleet_changes)
    def change_the_fleet(self, queue: str, worker: str, change: str) -> None:
        changes: dict[str, Callable[[Session], Awaitable[object]]] = {
            "pause": lambda session: session.fleet.pause(queue),
            "resume": lambda session: session.fleet.resume(queue),
            "register": lambda session: session.fleet.register(worker_record(worker), LIFE),
            "register briefly": lambda session: session.fleet.register(worker_record(worker), SECOND),
            "beat": lambda session: session.fleet.beat(worker, LIFE),
            "beat and report": lambda session: session.fleet.beat(worker, LIFE, worker.encode()),
            "retire": lambda session: session.fleet.retire(worker),
        }
        self.ask(changes[change])

    @rule(query=draws.queries, asked=st.lists(draws.ids, max_size=4))
    def look(self, query: Query, asked: list[str]) -> None:
        found = [job.id for job in self.ask(lambda session: session.jobs.find(query))]
        assert found == sorted(set(found), reverse=True)[: query.limit]
        assert self.ask(lambda session: session.jobs.states(asked)) == [self.jobs.get(job) for job in asked]

    def send(self, worker: str, moves: list[Move], want: Want | None, repeats: Tick | None = None) -> Ticked:
        seq = repeats.seq if repeats else len(self.ticks) + 1
        tick = Tick(worker=worker, seq=seq, moves=moves, want=want, repeat=repeats is not None)
        ticked = self.ask(lambda session: _tick(session, tick))
        self.ticks.append(tick)
        for job in ticked.claimed:
            assert job.worker == worker
            if job.state is State.CLAIMED and (job.id, job.token) not in self.leases:
                assert all(token < job.token for known, token in self.leases if known == job.id)
                assert want is not None
                assert job.queue in want.queues
                assert job.task in want.tasks
                assert job.due <= self.clock.now()
                self.leases.append((job.id, job.token))
                self.holders[job.id, job.token] = worker
        return ticked

    @invariant()
    def what_is_seen_fits_together(self) -> None:
        jobs = {job.id: job for job in self.ask(lambda session: session.jobs.find(EVERYTHING))}
        assert self.ask(self.counts) == self.expected_counts(list(jobs.values()))
        self.ask(lambda session: _fleet(session, self.clock.now()))
        keys = [job.key for job in jobs.values() if job.key is not None and job.state not in FINISHED]
        assert len(keys) == len(set(keys))
        for job in jobs.values():
            assert (job.state in LEASED) is (job.worker is not None) is (job.lease_until is not None)
            assert (job.state in FINISHED) is (job.finished is not None)
        touched = {job_id for job_id in draws.IDS if jobs.get(job_id) != self.jobs.get(job_id)}
        touched |= {move.job for move in self.ticks[-1].moves} if self.ticks else set()
        for job_id in sorted(touched):
            self.check_history(job_id, jobs.get(job_id))
        self.jobs = jobs

    def counts(self, session: Session) -> Awaitable[dict[tuple[str, State], tuple[int, int]]]:
        return _counts(session)

    def expected_counts(self, jobs: list[JobRecord]) -> dict[tuple[str, State], tuple[int, int]]:
        counts = Counter((job.queue, job.state) for job in jobs)
        due = Counter((job.queue, job.state) for job in jobs if self.is_counted_as_due(job))
        return {place: (number, due[place]) for place, number in counts.items()}

    def is_counted_as_due(self, job: JobRecord) -> bool:
        return job.state in WAITING and job.due <= self.clock.now()

    def check_history(self, job_id: str, job: JobRecord | None) -> None:
        attempts = self.ask(lambda session: session.jobs.history(job_id))
        tokens = [attempt.token for attempt in attempts]
        assert tokens == sorted(set(tokens))
        ended = 0 if job is None else job.run - (job.state in LEASED)
        assert [attempt.run for attempt in attempts] == list(range(1, ended + 1))


class ComparedMachine(StoreMachine):
    """Drives the store under test and the memory store side by side, on one clock, and compares."""

    def references(self) -> list[Store]:
        return [MemoryStore(clock=self.clock)]


async def _answer(call: Callable[[Session], Awaitable[T]], session: Session) -> T | type[KeyConflict]:
    try:
        return await call(session)
    except KeyConflict:
        return KeyConflict


async def _tick(session: Session, tick: Tick) -> Ticked:
    ticked = await session.jobs.tick(tick)
    if tick.repeat:
        # The order in which jobs are given back is not promised.
        ticked.claimed.sort(key=lambda job: job.id)
    return ticked


async def _counts(session: Session) -> dict[tuple[str, State], tuple[int, int]]:
    return {(line.queue, line.state): (line.count, line.due) for line in await session.jobs.count()}


async def _fleet(session: Session, now: int) -> tuple[object, object]:
    queues = await session.fleet.queues()
    # Each is held against its own jobs: what is parked, and what is ready, differs from store to store.
    check_oldest(queues, await session.jobs.find(EVERYTHING), now)
    return await session.fleet.workers(), [replace(queue, oldest=None) for queue in queues]

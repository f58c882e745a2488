"""What happens in the demo. It acts only on what the store shows, and counts only what the store says."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.app import Holdfast
from holdfast.cli.demo.crew import Condition, Crew, Member
from holdfast.model.job import Attempt, Job
from holdfast.model.lifecycle import LEASED, Ending, State

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 60.0


class StoryError(Exception):
    """The demo could not show what it is meant to show."""


@dataclass(slots=True)
class Scene:
    """The store as it was last seen."""

    crew: Crew
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    jobs: dict[str, Job[Any]] = field(default_factory=dict[str, Job[Any]])
    holders: dict[str, Member] = field(default_factory=dict[str, Member])
    """Members by the id under which the store knows them."""

    def holder(self, job: Job[Any]) -> Member | None:
        return self.holders.get(job.worker or "")

    def held_by(self, member: Member) -> list[Job[Any]]:
        return [job for job in self.jobs.values() if job.state in LEASED and self.holder(job) is member]

    def name(self, worker: str | None) -> str:
        member = self.holders.get(worker or "")
        return "?" if member is None else member.name


class Screen(Protocol):
    """Where the demo is shown."""

    def tell(self, line: str, style: str = "") -> None: ...

    def draw(self, scene: Scene) -> None: ...


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers that the store gives at the end."""

    accepted: int
    completed: int
    attempts: int
    take_overs: int
    late_writes_refused: int
    lost: int
    completed_twice: int

    @property
    def proves_it(self) -> bool:
        shown = self.take_overs >= 2 and self.late_writes_refused >= 1
        return shown and self.completed == self.accepted > 0 and self.lost == 0 and self.completed_twice == 0


class Story:
    """One performance: enqueue, kill one worker, freeze another, wake it, and wait until all work is done.

    With `await_progress` a worker is struck only after the store has seen some progress of its job; for that,
    jobs must be longer than a few heartbeats.
    """

    def __init__(
        self, app: Holdfast, crew: Crew, database: Path, screen: Screen, *, await_progress: bool
    ) -> None:
        self._app = app
        self._await_progress = await_progress
        self._crew = crew
        self._database = database
        self._screen = screen
        self._seen: dict[str, tuple[State, int]] = {}
        self.scene = Scene(crew)

    async def play(self, calls: Sequence[Any]) -> Summary:
        count = len(self._crew.members)
        self._screen.tell(f"{count} worker processes started, one SQLite file between them")
        await self._until(lambda: len(self.scene.holders) == count, "all workers to register")
        jobs = await self._app.enqueue_many(calls)
        self.scene.numbers = {job.id: number for number, job in enumerate(jobs, start=1)}
        self._screen.tell(f"{len(jobs)} jobs accepted by the store", "bold")
        await self._kill_one()
        await self._freeze_and_wake_one()
        await self._until(
            lambda: all(job.is_finished for job in self.scene.jobs.values()), "all jobs to finish"
        )
        return await self._count()

    async def _kill_one(self) -> None:
        member, job = await self._catch_running()
        self._crew.kill(member)
        number = self.scene.numbers[job.id]
        self._screen.tell(f"worker {member.name} killed (SIGKILL) in the middle of job {number}", "bold red")
        await self._until(lambda: self._has_passed_on(job), f"job {number} to be taken over")
        other = self.scene.name(self.scene.jobs[job.id].worker)
        self._screen.tell(
            f"job {number} taken over by worker {other}: the dead one's lease ran out", "bold green"
        )

    async def _freeze_and_wake_one(self) -> None:
        member, job = await self._catch_running()
        member.condition = Condition.FROZEN
        number = self.scene.numbers[job.id]
        self._screen.tell(
            f"worker {member.name} frozen (SIGSTOP) in the middle of job {number}", "bold magenta"
        )
        await self._until(lambda: self._has_passed_on(job), f"job {number} to be taken over")
        other = self.scene.name(self.scene.jobs[job.id].worker)
        self._screen.tell(
            f"job {number} taken over by worker {other}: the frozen one's lease ran out", "bold green"
        )
        await self._until(lambda: self.scene.jobs[job.id].is_finished, f"job {number} to be completed")
        self._crew.go_on(member)
        member.condition = Condition.WOKEN
        self._screen.tell(
            f"worker {member.name} woken (SIGCONT): it still believes that job {number} is its own",
            "bold magenta",
        )
        await self._until_refused(job, member, number)

    async def _until_refused(self, job: Job[Any], member: Member, number: int) -> None:
        async def refused() -> bool:
            history = await self._app.history(job.id)
            return any(each.token == job.token and each.outcome is Ending.SUPERSEDED for each in history)

        begun = time.monotonic()
        while not await refused():
            await self._look()
            self._check_patience(begun, f"the late write of worker {member.name} to be refused")
        self._screen.tell(
            f"late write of worker {member.name} for job {number} refused: its token is not the current one",
            "bold green",
        )

    async def _catch_running(self) -> tuple[Member, Job[Any]]:
        """A member stopped in the middle of a job: the store shows the job as still its own."""
        begun = time.monotonic()
        while True:
            for job in self.scene.jobs.values():
                member = self.scene.holder(job)
                if member is None or not self._is_at_work(member, job):
                    continue
                self._crew.pause(member)
                if await self._is_caught(job):
                    return member, job
                self._crew.go_on(member)
            await self._look()
            if self.scene.jobs and all(job.is_finished for job in self.scene.jobs.values()):
                raise StoryError(
                    "all jobs ended before a worker could be caught at work; use a longer --length"
                )
            self._check_patience(begun, "a worker to be seen at work")

    def _is_at_work(self, member: Member, job: Job[Any]) -> bool:
        in_the_middle = job.state is State.RUNNING and (job.progress is not None or not self._await_progress)
        return in_the_middle and member.condition is Condition.WORKING

    async def _is_caught(self, job: Job[Any]) -> bool:
        """The stopped process still has its job, but not the file's write lock, which would stop all."""
        if not await asyncio.to_thread(_is_writable, self._database):
            return False
        current = await self._app.get(job.id)
        return current is not None and current.state is State.RUNNING and current.token == job.token

    def _has_passed_on(self, job: Job[Any]) -> bool:
        current = self.scene.jobs[job.id]
        return current.token != job.token and current.state not in {State.SCHEDULED, State.RETRY}

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        begun = time.monotonic()
        while True:
            await self._look()
            if is_so():
                return
            self._check_patience(begun, what)

    def _check_patience(self, begun: float, what: str) -> None:
        if time.monotonic() - begun > PATIENCE_SECONDS:
            raise StoryError(f"waited {PATIENCE_SECONDS:g} s in vain for {what}")

    async def _look(self) -> None:
        """Reads the store, tells what has changed, and draws."""
        await asyncio.sleep(POLL_SECONDS)
        scene = self.scene
        for worker in await self._app.workers():
            member = self._crew.by_pid(worker.pid)
            if member is not None:
                scene.holders[worker.id] = member
        found = await self._app.find(task="sample", limit=1000)
        scene.jobs = {job.id: job for job in found if job.id in scene.numbers}
        for job in sorted(scene.jobs.values(), key=lambda job: scene.numbers[job.id]):
            await self._tell_change(job)
        self._screen.draw(scene)
        for member in self._crew.members:
            if member.died_unasked:
                last = " / ".join(member.last_lines(3)) or "it logged nothing"
                raise StoryError(f"worker {member.name} ended by itself: {last}")

    async def _tell_change(self, job: Job[Any]) -> None:
        before, now = self._seen.get(job.id), (job.state, job.token)
        self._seen[job.id] = now
        number = self.scene.numbers[job.id]
        if job.state in LEASED and (before is None or before[1] != job.token):
            self._screen.tell(f"job {number} held by worker {self.scene.name(job.worker)}, run {job.run}")
        elif job.state is State.SUCCESS and before != now:
            name = self.scene.name((await self._app.history(job.id))[-1].worker)
            self._screen.tell(f"job {number} completed by worker {name}, run {job.run}", "green")

    async def _count(self) -> Summary:
        jobs = [
            job for job in await self._app.find(task="sample", limit=1000) if job.id in self.scene.numbers
        ]
        histories = [await self._app.history(job.id) for job in jobs]
        completed = sum(job.state is State.SUCCESS for job in jobs)
        return Summary(
            accepted=len(jobs),
            completed=completed,
            attempts=sum(len(history) for history in histories),
            take_overs=sum(_take_overs(history) for history in histories),
            late_writes_refused=_ended(histories, Ending.SUPERSEDED),
            lost=len(self.scene.numbers) - completed,
            completed_twice=sum(_ended([history], Ending.SUCCESS) > 1 for history in histories),
        )


def _take_overs(history: Sequence[Attempt]) -> int:
    """Attempts that were taken from their worker and followed by another one's."""
    last = max(attempt.run for attempt in history) if history else 0
    return sum(each.outcome in {Ending.LOST, Ending.SUPERSEDED} and each.run < last for each in history)


def _ended(histories: Sequence[Sequence[Attempt]], outcome: Ending) -> int:
    return sum(attempt.outcome is outcome for history in histories for attempt in history)


def _is_writable(database: Path) -> bool:
    connection = sqlite3.connect(database, timeout=0.3, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        return True
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()

"""A store in a folder, real worker processes on it, and what they leave outside of the system."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, Unpack

from holdfast import Attempt, Call, Holdfast, Job
from holdfast.model.overrides import Overrides
from tests.chaos import program
from tests.chaos.process import Process, end_all
from tests.chaos.waiting import PATIENCE, until, until_async

ROOT = Path(__file__).resolve().parents[2]
_UNWANTED = ("database is locked", "Traceback")


class Effect(NamedTuple):
    """One line that a handler left outside of the system."""

    word: str
    job: str
    run: int
    token: int
    pid: int


class Site:
    """A SQLite file, an application open on it, and the processes that were started there.

    Leaving it kills them all, by their ids, and looks at what they have printed.
    """

    def __init__(self, folder: Path, *, url: str | None = None, **settings: Unpack[Overrides]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.url = url or f"sqlite:///{folder / 'jobs.db'}"
        self._settings: Overrides = {"lease_seconds": 2.0, **settings}
        self.app = Holdfast(self.url, **self._settings)
        self._effects = folder / "effects"
        self._processes: list[Process] = []
        self._is_left = False

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_left = True
        for process in self._processes:
            process.kill()
        end_all(self.folder)
        await self.app.__aexit__(kind, error, trace)
        if kind is None:
            printed = self.printed()
            assert [text for text in _UNWANTED if text in printed] == [], printed

    @property
    def lease(self) -> float:
        return self.app.settings.lease_seconds

    def printed(self) -> str:
        """What processes here have printed."""
        return "".join(process.output for process in self._processes)

    def start(self, *arguments: str, **environ: str) -> Process:
        """Starts a Python process here."""
        assert not self._is_left, "nobody would end it"
        log = self.folder / f"process-{len(self._processes)}.log"
        process = Process([sys.executable, *arguments], self.folder, self._environ(environ), log)
        self._processes.append(process)
        return process

    def worker(self, *options: str, app: str = "app", **environ: str) -> Process:
        """Starts `holdfast worker` with the program of these tests."""
        return self.start("-m", "holdfast", "worker", f"{program.__name__}:{app}", *options, **environ)

    async def workers(self, count: int, *options: str) -> list[Process]:
        """Starts some, and waits until they are there."""
        started = [self.worker(*options) for _ in range(count)]
        for worker in started:
            await worker.starts()
        return started

    async def freeze(self, worker: Process) -> None:
        """Stops the process where it holds no lock of the file, because with one nobody could go on."""

        async def is_frozen() -> bool:
            worker.signal(signal.SIGSTOP)
            try:
                await asyncio.wait_for(asyncio.to_thread(self.query, "BEGIN IMMEDIATE"), 1)
            except TimeoutError:
                worker.signal(signal.SIGCONT)
                return False
            return True

        await until_async(is_frozen, "it is frozen between two transactions")

    def open_gate(self, name: str) -> None:
        """Lets handlers go on that wait for this gate."""
        (self.folder / name).touch()

    async def add(self, *calls: Call) -> list[Job[Any]]:
        return await self.app.enqueue_many(calls)

    def effects(self, word: str, job: Job[Any] | None = None) -> list[Effect]:
        """What handlers left under this word, in order."""
        try:
            text = self._effects.read_text(encoding="ascii")
        except FileNotFoundError:
            return []
        found: list[Effect] = []
        # The last line may be half written.
        for line in text[: text.rfind("\n") + 1].splitlines():
            each, job_id, *numbers = line.split()
            if each == word and (job is None or job.id == job_id):
                found.append(Effect(each, job_id, *map(int, numbers)))
        return found

    async def began(self, job: Job[Any], count: int = 1, within: float = PATIENCE) -> Effect:
        """Waits until the handler has begun so often; what it left then."""
        found = await until(
            lambda: self.effects("began", job),
            f"run {count} of {job.task} begins",
            lambda began: len(began) >= count,
            within=within,
            show=self.printed,
        )
        return found[count - 1]

    async def finished(self, *jobs: Job[Any], within: float = PATIENCE) -> list[Job[Any]]:
        """Waits until the jobs are finished; how they then stand."""

        async def finished() -> list[Job[Any]]:
            found = await asyncio.gather(*(self.app.get(job.id) for job in jobs))
            return [job for job in found if job is not None and job.is_finished]

        return await until_async(
            finished,
            f"{len(jobs)} jobs finish",
            lambda found: len(found) == len(jobs),
            within=within,
            show=self.printed,
        )

    async def stored(self, job: Job[Any]) -> Job[Any]:
        """The job as it stands."""
        found = await self.app.get(job.id)
        assert found is not None
        return found

    async def outcomes(self, job: Job[Any]) -> list[str]:
        return [attempt.outcome.value for attempt in await self.app.history(job.id)]

    async def check(self, jobs: Iterable[Job[Any]]) -> list[list[str]]:
        """What must hold for jobs that succeeded, whatever was done to their workers; their outcomes."""
        began: dict[str, set[int]] = defaultdict(set)
        for effect in self.effects("began"):
            began[effect.job].add(effect.token)
        ended = {(effect.job, effect.token) for effect in self.effects("ended")}

        async def check(job: Job[Any]) -> list[str]:
            stored, attempts = await asyncio.gather(self.stored(job), self.app.history(job.id))
            check_attempts(stored, attempts)
            assert began[job.id] <= {attempt.token for attempt in attempts}, "a run without a record"
            assert (job.id, stored.token) in ended, "a success without its effect"
            return [attempt.outcome.value for attempt in attempts]

        return await asyncio.gather(*(check(job) for job in jobs))

    def query(self, sql: str, *values: object) -> list[Any]:
        """Rows of the file, past all that is tested."""
        path = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
            return connection.execute(sql, values).fetchall()

    def _environ(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        path = filter(None, [extra.get("PYTHONPATH"), str(ROOT), own.get("PYTHONPATH")])
        return {
            **own,
            **{f"HOLDFAST_{name.upper()}": str(value) for name, value in self._settings.items()},
            "HOLDFAST_STORE": self.url,
            "CHAOS_EFFECTS": str(self._effects),
            "PYTHONUNBUFFERED": "1",
            **extra,
            "PYTHONPATH": os.pathsep.join(path),
        }


def check_attempts(job: Job[Any], attempts: Sequence[Attempt]) -> None:
    """One accepted completion, by the last and highest token; every earlier attempt has ended otherwise."""
    outcomes = [attempt.outcome.value for attempt in attempts]
    assert job.state == "success", (job, outcomes)
    assert outcomes.count("success") == 1, outcomes
    assert attempts[-1].outcome == "success", outcomes
    assert attempts[-1].token == job.token
    tokens = [attempt.token for attempt in attempts]
    assert tokens == sorted(set(tokens)), "tokens grow"
    assert [attempt.run for attempt in attempts] == list(range(1, job.run + 1)), "each run is told once"

"""A place of its own for the history of a test, whose clock is moved by days."""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.model.lifecycle import SUCCEEDED, Ending, Path, State
from holdfast.model.records import JobRecord, Query, Tick
from holdfast.store import Session
from holdfast.testing import ManualClock
from holdfast.testing.conformance.case import ended, new_job, wanted, worker_record
from tests.postgres.support import Place

DAY = 86_400_000_000
WEEK = 7 * DAY
ANN = "ann"


class Archive:
    """A place of its own whose clock is moved by days."""

    def __init__(self, url: str) -> None:
        self.schema = f"history_{secrets.token_hex(4)}"
        self.place = Place(url, self.schema)
        now = time.time_ns() // 1_000
        self.clock = ManualClock(now - now % DAY + DAY // 2)
        self.store = self.place.clocked(self.clock)
        self._sessions: list[Session] = []
        self._seq = 0

    async def open(self, namespace: str = "shop") -> Session:
        session = await self.store.connect(namespace)
        self._sessions.append(session)
        await session.fleet.register(worker_record(ANN), 1000 * DAY)
        return session

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        await self.store.close()
        self.place.connection.execute(f"DROP SCHEMA {self.schema} CASCADE")
        self.place.connection.close()

    def sql(self, text: str) -> list[Any]:
        cursor = self.place.connection.execute(text.replace("holdfast.", f"{self.schema}."))
        return cursor.fetchall() if cursor.description else []

    def pass_days(self, days: float) -> None:
        self.clock.advance(days * 86_400)

    def new_id(self) -> str:
        """An id as a client whose clock is right would make it."""
        text = f"{self.clock.now() // 1000:012x}7{secrets.token_hex(9)[:3]}8{secrets.token_hex(8)[:15]}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    async def claim(self, session: Session, limit: int = 100) -> list[JobRecord]:
        self._seq += 1
        tick = Tick(worker=ANN, seq=self._seq, moves=[], want=wanted(limit=limit, lease=100 * DAY))
        return (await session.jobs.tick(tick)).claimed

    async def end(
        self,
        session: Session,
        job: JobRecord,
        path: Path = SUCCEEDED,
        outcome: Ending = Ending.SUCCESS,
        **more: Any,
    ) -> None:
        self._seq += 1
        move = ended(job, path, outcome, elapsed=1, **more)
        ticked = await session.jobs.tick(Tick(worker=ANN, seq=self._seq, moves=[move]))
        assert ticked.verdicts[0].name == "ACCEPTED"

    async def finish(self, session: Session, jobs: int = 1, **fields: Any) -> list[JobRecord]:
        """Jobs that are made and succeed now."""
        await session.jobs.add([new_job(**{"id": self.new_id(), **fields}) for _ in range(jobs)])
        claimed = await self.claim(session)
        for job in claimed:
            await self.end(session, job)
        return claimed

    def copy(self, jobs: int, state: int) -> None:
        """As many more finished jobs, made on the day of one that is there."""
        others = (
            "task",
            "queue",
            "payload",
            "priority",
            "due",
            "created",
            "finished",
            "token",
            "version",
            "run",
        )
        names = ", ".join((*others, "failures", "lost", "suspect", "cancel_asked"))
        made = "(left(id::text, 19) || '8000-' || lpad(to_hex(n), 12, '0'))::uuid"
        self.sql(
            f"WITH kept AS (INSERT INTO holdfast.done (ns, id, state, {names}) "
            f"SELECT ns, {made}, {state}, {names} "
            f"FROM (SELECT * FROM holdfast.done LIMIT 1) AS d, generate_series(1, {jobs}) AS n "
            "RETURNING ns, queue, state, tableoid AS part) "
            "INSERT INTO holdfast.tally (ns, queue, state, part, jobs) "
            "SELECT ns, queue, state, part, count(*) FROM kept GROUP BY 1, 2, 3, 4"
        )

    def partition(self, job: JobRecord | str, table: str = "done") -> str:
        """In which table a job stands, without the part that all have in common."""
        column = "id" if table == "done" else "job"
        job_id = job if isinstance(job, str) else job.id
        rows = self.sql(f"SELECT tableoid::regclass::text FROM holdfast.{table} WHERE {column} = '{job_id}'")
        return ",".join(sorted({name.rpartition(".")[2].removeprefix(f"{table}_") for (name,) in rows}))

    def days(self) -> list[str]:
        return [name for (name,) in self.sql("SELECT name FROM holdfast.day WHERE made ORDER BY name")]

    def today(self) -> str:
        return time.strftime("%Y%m%d", time.gmtime(self.clock.now() // 1_000_000))

    async def agree(self, session: Session) -> None:
        """Counts say what there is."""
        told = {(each.queue, each.state): each.count for each in await session.jobs.count()}
        found: dict[tuple[str, State], int] = {}
        for job in await session.jobs.find(Query(limit=10_000)):
            found[job.queue, job.state] = found.get((job.queue, job.state), 0) + 1
        assert told == found


@asynccontextmanager
async def an_archive(url: str) -> AsyncGenerator[tuple[Archive, Session]]:
    archive = Archive(url)
    try:
        yield archive, await archive.open()
    finally:
        await archive.close()


async def prune(session: Session, older_than: int = WEEK, turns: int = 4) -> int:
    """As a janitor does over some minutes."""
    return sum([await session.jobs.prune(older_than, 200) for _ in range(turns)])

"""What the SQLite tests share: stores, jobs, and processes that play a part."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any, Self

from holdfast.model.lifecycle import SUCCEEDED, Ending
from holdfast.model.records import JobRecord, Move, NewJob, Tick, Ticked, Want, WorkerRecord
from holdfast.store import Session
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.clock import Clock
from holdfast.stores.sqlite.store import SqliteSession

QUEUE = "mail"
TASK = "send"
LONG = 600_000_000

_numbers = count(1)


def store_at(folder: Path, query: str = "", clock: Clock | None = None) -> SqliteStore:
    return SqliteStore.from_url(url_of(folder) + query, clock=clock)


@asynccontextmanager
async def session_at(
    folder: Path, query: str = "", clock: Clock | None = None, namespace: str = "default"
) -> AsyncGenerator[SqliteSession]:
    session = await store_at(folder, query, clock).connect(namespace)
    try:
        yield session
    finally:
        await session.close()


def url_of(folder: Path) -> str:
    return f"sqlite:///{file_of(folder)}"


def file_of(folder: Path) -> Path:
    return folder / "jobs.db"


def loosen(path: Path | str) -> None:
    """Lets every column take every value, as in files that were made before their tables were strict."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (version,) = connection.execute("PRAGMA schema_version").fetchone()
        tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        for name, sql in tables:
            loose = re.sub(r",\n    CHECK \(.*\)", "", sql).replace(" STRICT,", "").replace(" STRICT", "")
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (loose, name))
        connection.execute(f"PRAGMA schema_version = {version + 1}")


def new_job(**fields: Any) -> NewJob:
    made = f"018f0000-0000-7000-8000-{next(_numbers):012x}"
    return NewJob(**{"id": made, "task": TASK, "queue": QUEUE, "payload": b"[1]", **fields})


async def register(session: Session, worker: str = "ann") -> None:
    record = WorkerRecord(id=worker, host="h", pid=1, queues=(QUEUE,), tasks=(TASK,), concurrency=1)
    await session.fleet.register(record, LONG)


def asking(seq: int, *moves: Move, worker: str = "ann", limit: int = 10) -> Tick:
    want = Want(queues=(QUEUE,), tasks=frozenset({TASK}), limit=limit, lease=LONG)
    return Tick(worker=worker, seq=seq, moves=list(moves), want=want)


async def tick(session: Session, seq: int, *moves: Move, worker: str = "ann", limit: int = 10) -> Ticked:
    return await session.jobs.tick(asking(seq, *moves, worker=worker, limit=limit))


def success(job: JobRecord, **fields: Any) -> Move:
    return Move(job=job.id, token=job.token, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=0, **fields)


class Child:
    """A process that plays a part of `tests.sqlite.parts`, and is gone after the test."""

    def __init__(self, part: str, *arguments: object) -> None:
        command = [sys.executable, "-m", "tests.sqlite.parts", part, *map(str, arguments)]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self) -> list[str]:
        """All further lines until the process ends by itself, which it must do without an error."""
        assert self.process.stdout is not None
        lines = [line.strip() for line in self.process.stdout]
        assert self.process.wait() == 0
        return lines

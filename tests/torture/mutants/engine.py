"""Mutants of the engine: what it does about answers, and when it moves on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.engine.consumer import Consumer
from holdfast.engine.enqueuer import Enqueuer
from holdfast.engine.ids import new_id
from holdfast.model.errors import OutcomeUnknown, StoreError
from holdfast.model.records import Added, NewJob, as_added

LATENESS = 0.5
"""Seconds by which an early answer is early."""


def _pretended(jobs: Sequence[NewJob]) -> list[Added]:
    now = time.time_ns() // 1_000
    return [Added(record=as_added(job, now), created=True) for job in jobs]


def answer_early() -> None:
    """An enqueue is answered at once, and stored a little later, if the process lives that long."""
    add: Any = Enqueuer._add
    under_way: set[asyncio.Task[None]] = set()

    async def store(self: Any, jobs: Sequence[NewJob]) -> None:
        await asyncio.sleep(LATENESS)
        with contextlib.suppress(StoreError):
            await add(self, jobs)

    async def early(self: Any, jobs: Sequence[NewJob]) -> list[Added]:
        task = asyncio.create_task(store(self, jobs))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        return _pretended(jobs)

    Enqueuer._add = early  # type: ignore[method-assign]


def take_errors_for_success() -> None:
    add: Any = Enqueuer._add

    async def hopeful(self: Any, jobs: Sequence[NewJob]) -> list[Added]:
        try:
            answers: list[Added] = await add(self, jobs)
            return answers
        except StoreError:
            return _pretended(jobs)

    Enqueuer._add = hopeful  # type: ignore[method-assign]


def retry_blindly() -> None:
    async def again(self: Any, jobs: Sequence[NewJob]) -> list[Added]:
        try:
            answers: list[Added] = await self._store.add(jobs)
        except OutcomeUnknown:
            answers = await self._store.add([replace(job, id=new_id(), key=None) for job in jobs])
        return answers

    Enqueuer._add = again  # type: ignore[method-assign]


def move_cursor_first() -> None:
    """What was read counts as dealt with, before anybody has seen it."""
    read: Any = Consumer._read

    async def ahead(self: Any, bookmark: Any) -> Any:
        found = await read(self, bookmark)
        if found:
            last = found[-1]
            await bookmark.save(lambda progress: progress.passed(last))
        return found

    Consumer._read = ahead  # type: ignore[method-assign]

"""Storing events, and jobs with them, within a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.engine.again import once_more
from holdfast.model.errors import OutcomeUnknown
from holdfast.model.events import NewEvent
from holdfast.model.records import Added, NewJob, as_repeated
from holdfast.store import EventStore


class Emitter:
    """Appends to one store. After `timeout` seconds without an answer the outcome is unknown."""

    def __init__(self, store: EventStore, timeout: float) -> None:
        self._store = store
        self._timeout = timeout

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        """Stores it in one commit; the answers for the jobs, of which one may be a conflict.

        If an answer is lost on the way it is sent again.
        """
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    return await self._store.append(events, jobs)
                except OutcomeUnknown as unknown:
                    return await once_more(self._store.append(events, as_repeated(jobs)), unknown)
        except TimeoutError:
            raise OutcomeUnknown(f"no answer within {self._timeout:g} s (enqueue_timeout_seconds)") from None

"""Steering many jobs at once: queues, and the dead-letter queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from holdfast.engine.client import MOST_FOUND, Client, JobId, Page
from holdfast.model.errors import Conflict, JobGone
from holdfast.model.lifecycle import State
from holdfast.model.names import check_name
from holdfast.model.overview import Counts, QueueInfo
from holdfast.model.records import QueueRecord

_AT_ONCE = 50


class Queues:
    """The queues of a namespace. A paused one keeps its jobs; nothing of it is started."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def pause(self, queue: str) -> None:
        await self._client().session.fleet.pause(check_name(queue, "queue"))

    async def resume(self, queue: str) -> None:
        await self._client().session.fleet.resume(check_name(queue, "queue"))

    async def list(self, *, exact: bool = False) -> list[QueueInfo]:
        """Queues that have jobs or were ever paused, by name, with counts as `stats` gives them."""
        client = self._client()
        known = {record.name: record for record in await client.session.fleet.queues()}
        counts = (await client.stats(exact=exact)).by_queue
        none = Counts.of(())
        return [
            QueueInfo.of(
                known.get(name) or QueueRecord(name=name, paused=False),
                counts.get(name, none),
            )
            for name in sorted({*known, *counts})
        ]


class DeadLetters:
    """Jobs whose attempts are used up. They stay until they are replayed or discarded."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def list(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        return await self._client().find(
            state=State.DLQ, queue=queue, task=task, tag=tag, cursor=cursor, limit=limit
        )

    async def replay(
        self,
        ids: Iterable[JobId] | None = None,
        *,
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Replays the jobs of these ids, or all that fit, at most `limit`; how many were."""
        client = self._client()
        return await self._each(client.replay, ids, queue=queue, task=task, tag=tag, limit=limit)

    async def discard(
        self,
        ids: Iterable[JobId] | None = None,
        *,
        queue: str | None = None,
        task: str | None = None,
        tag: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Deletes the jobs of these ids, or all that fit, at most `limit`; how many were."""

        async def discard(job_id: JobId) -> None:
            job = await client.get(job_id)
            if job is None or job.state is not State.DLQ:
                raise JobGone(f"job {job_id} is not in the dead-letter queue")
            await client.delete(job_id)

        client = self._client()
        return await self._each(discard, ids, queue=queue, task=task, tag=tag, limit=limit)

    async def _each(
        self,
        act: Callable[[JobId], Awaitable[object]],
        ids: Iterable[JobId] | None,
        *,
        queue: str | None,
        task: str | None,
        tag: str | None,
        limit: int | None,
    ) -> int:
        """Acts on the jobs; one that somebody else took out of the queue meanwhile does not count."""
        if ids is not None:
            return await self._all([*ids][:limit], act)
        done = 0
        cursor: str | None = None
        while limit is None or done < limit:
            size = MOST_FOUND if limit is None else min(MOST_FOUND, limit - done)
            page = await self.list(queue=queue, task=task, tag=tag, cursor=cursor, limit=size)
            done += await self._all([job.id for job in page], act)
            cursor = page.cursor
            if cursor is None:
                break
        return done

    async def _all(self, ids: Sequence[JobId], act: Callable[[JobId], Awaitable[object]]) -> int:
        done = 0
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            for answer in await asyncio.gather(*(_tried(act, job_id) for job_id in part)):
                done += answer
        return done


async def _tried(act: Callable[[JobId], Awaitable[object]], job_id: JobId) -> bool:
    try:
        await act(job_id)
    except (Conflict, JobGone):
        return False
    return True

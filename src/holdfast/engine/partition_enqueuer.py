"""Adding jobs to several partitions, so that one that is away holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import islice

from holdfast.engine.enqueuer import Enqueuer
from holdfast.model.errors import StoreUnavailable
from holdfast.model.partition import partly
from holdfast.model.records import Added, NewJob
from holdfast.store import Session
from holdfast.store.partitions import PartitionedSession

Answers = list[tuple[NewJob, Added]]


class PartitionedEnqueuer:
    """One enqueuer for each partition."""

    def __init__(self, session: PartitionedSession, *, batch: int, timeout: float) -> None:
        self._session = session
        self._of_queue = session.layout.of_queue
        self._batch = batch
        self._timeout = timeout
        self._enqueuers = {
            name: Enqueuer(part.jobs, batch=batch, timeout=timeout) for name, part in session.parts.items()
        }

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Stores the jobs: those of one partition in one commit. PartlyStored if some of them failed."""
        if len(jobs) == 1 and jobs[0].fresh and jobs[0].flow is None:
            return await self._enqueuers[self._of_queue(jobs[0].queue)].add(jobs)
        return [added for _, added in await self._add(jobs, [])]

    async def add_many(self, batches: Iterable[list[NewJob]], *, in_order: bool) -> AsyncGenerator[Answers]:
        """Stores batches, one commit after the other in each partition; the answers in order.

        So many are taken at once that each partition may get a whole one. If a partition fails it is
        PartlyStored, which names the jobs that are stored.
        """
        stored: list[str] = []
        given = iter(batches)
        while some := list(islice(given, len(self._enqueuers))):
            jobs = [job for batch in some for job in batch]
            yield await self._add(jobs, stored)

    async def close(self) -> None:
        for enqueuer in self._enqueuers.values():
            await enqueuer.close()

    async def _add(self, jobs: Sequence[NewJob], stored: list[str]) -> Answers:
        places = await self._sorted_out(jobs)
        added: dict[int, Added] = {}
        faults: list[BaseException] = []

        async def send(name: str, some: list[int]) -> None:
            for start in range(0, len(some), self._batch):
                part = some[start : start + self._batch]
                answers = await self._enqueuers[name].add([jobs[place] for place in part])
                added.update(zip(part, answers, strict=True))

        if len(places) == 1 and len(jobs) <= self._batch and not stored:
            [name] = places
            await send(name, places[name])
        else:
            sends = (send(name, some) for name, some in places.items())
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
            faults = [outcome for outcome in outcomes if outcome is not None]
        if faults:
            done = [jobs[place].id for place in sorted(added)]
            raise partly(faults, [*stored, *done], [*stored, *(job.id for job in jobs)])
        stored += [job.id for job in jobs]
        return [(job, added[place]) for place, job in enumerate(jobs)]

    async def _sorted_out(self, jobs: Sequence[NewJob]) -> dict[str, list[int]]:
        """Where each goes. Those whose ids may be known are looked for, which takes a bounded time too."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._session.sorted_out(jobs)
        except TimeoutError:
            raise StoreUnavailable(
                f"nothing was stored: a partition that may have the job did not answer within "
                f"{self._timeout:g} s (enqueue_timeout_seconds)"
            ) from None


def make_enqueuer(session: Session, *, batch: int, timeout: float) -> Enqueuer | PartitionedEnqueuer:
    """What adds the jobs of a session."""
    if isinstance(session, PartitionedSession):
        return PartitionedEnqueuer(session, batch=batch, timeout=timeout)
    return Enqueuer(session.jobs, batch=batch, timeout=timeout)

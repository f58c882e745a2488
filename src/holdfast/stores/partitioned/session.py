"""A session of all partitions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.partition import Layout
from holdfast.model.records import NewJob
from holdfast.store import Session
from holdfast.stores.partitioned.adding import placed, sorted_out
from holdfast.stores.partitioned.branch import Branch
from holdfast.stores.partitioned.crowd import Crowd, gathered
from holdfast.stores.partitioned.events import PartitionedEvents
from holdfast.stores.partitioned.fleet import PartitionedFleet
from holdfast.stores.partitioned.flow import PartitionedFlow
from holdfast.stores.partitioned.jobs import PartitionedJobs
from holdfast.stores.partitioned.locks import PartitionedLocks
from holdfast.stores.partitioned.schedules import PartitionedSchedules

T = TypeVar("T")

HEAD_START = 1.0
"""How many seconds the other partitions may take to connect once one has; after that they go on alone."""


class PartitionedWakeups:
    """Hints from every partition."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        ends = [branch.wakeups.listen(wake) for branch in self._crowd.branches.values()]

        def stop() -> None:
            for end in ends:
                end()

        return stop


class PartitionedSession:
    """One namespace in all partitions, for one event loop."""

    def __init__(self, layout: Layout, branches: Mapping[str, Branch]) -> None:
        self._crowd = crowd = Crowd(layout, branches)
        self.layout = layout
        self.jobs = PartitionedJobs(crowd)
        self.fleet = PartitionedFleet(crowd)
        self.locks = PartitionedLocks(crowd)
        self.schedules = PartitionedSchedules(crowd)
        self.events = PartitionedEvents(crowd)
        self.wakeups = PartitionedWakeups(crowd)
        self.flow = PartitionedFlow(crowd)

    @property
    def parts(self) -> Mapping[str, Session]:
        return self._crowd.branches

    async def each(self, ask: Callable[[Session], Awaitable[T]]) -> dict[str, T]:
        return {branch.name: answer for branch, answer in await self._crowd.read(ask)}

    def placed(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        return placed(self._crowd, jobs)

    async def sorted_out(self, jobs: Sequence[NewJob]) -> dict[str, list[int]]:
        return await sorted_out(self._crowd, jobs)

    async def locate(self, job_ids: Sequence[str]) -> dict[str, str]:
        return await self._crowd.locate(job_ids)

    def tolerating(self) -> AbstractContextManager[Mapping[str, str]]:
        return self._crowd.tolerating()

    async def connect(self) -> None:
        """Connects. StoreError if there is no partition that can be connected, or if one never will be.

        One that does not answer for now is connected when it is asked for something.
        """
        trying = [asyncio.ensure_future(branch.connect()) for branch in self._crowd.branches.values()]
        try:
            pending = set(trying)
            while pending and not any(_is_well(task) for task in trying):
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                await asyncio.wait(pending, timeout=HEAD_START)
        finally:
            # What they wait for goes on: it is shared with whoever asks next.
            for task in trying:
                task.cancel()
            await asyncio.wait(trying)
        faults = [fault for task in trying if not task.cancelled() and (fault := task.exception())]
        lasting = [fault for fault in faults if not _may_pass(fault)]
        if lasting or len(faults) == len(trying):
            raise (lasting or faults)[0]

    async def close(self) -> None:
        await gathered([branch.close() for branch in self._crowd.branches.values()])


def _is_well(task: "asyncio.Future[Session]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _may_pass(fault: BaseException) -> bool:
    return isinstance(fault, StoreUnavailable | OutcomeUnknown | TimeoutError)

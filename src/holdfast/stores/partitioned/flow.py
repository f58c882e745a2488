"""What holds jobs back: limits are put in every partition, and each keeps its own count."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage, same, target
from holdfast.model.lifecycle import State
from holdfast.stores.partitioned.branch import Branch
from holdfast.stores.partitioned.crowd import Crowd

Place: TypeAlias = tuple[Scope, str]


class PartitionedFlow:
    """Limits, sequences, and jobs that wait for jobs.

    A limit holds in each partition by itself. That of a queue is exact, as long as the queue's jobs are in
    one partition. Sequences and fair keys likewise; jobs that wait for each other are in one partition.
    """

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        await self._crowd.write("put", lambda branch: branch.flow.put(limits))

    async def swap(self, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
        """What the first partition has that has one decides; the others are given the same."""
        place = target(known, limit)
        first = self._crowd.home
        for branch, limits in await self._crowd.read(lambda branch: branch.flow.limits()):
            if _found(limits, place) is not None:
                first = branch
                break
        if not await first.flow.swap(known, limit):
            return False
        await self._follow(first, place, limit)
        return True

    async def remove(self, scope: Scope, name: str) -> None:
        await self._crowd.write("removed", lambda branch: branch.flow.remove(scope, name))
        await self._follow(self._crowd.home, (scope, name), None)

    async def _follow(self, first: Branch, place: Place, limit: LimitRecord | None) -> None:
        """Gives the others what the first has, until that is still what it has: two may be changing it."""

        async def put(branch: Branch) -> None:
            if branch is first:
                return
            if limit is None:
                await branch.flow.remove(*place)
            else:
                await branch.flow.put([limit])

        while True:
            await self._crowd.write("put", put)
            stands = _found(await first.flow.limits(), place)
            if same(stands, limit):
                return
            limit = stands

    async def limits(self) -> list[LimitRecord]:
        found: dict[tuple[Scope, str], LimitRecord] = {}
        for _, limits in await self._crowd.read(lambda branch: branch.flow.limits()):
            for each in limits:
                found.setdefault((each.scope, each.name), each)
        return [found[key] for key in sorted(found)]

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        """Over all partitions, so that it may be more than the limit of each."""
        answers = [each for _, each in await self._crowd.read(lambda branch: branch.flow.usage(gates))]
        return [
            Usage(running=sum(each.running for each in of), parked=sum(each.parked for each in of))
            for of in zip(*answers, strict=True)
        ]

    async def awaited(self, job_id: str) -> Awaited | None:
        branch = await self._crowd.branch_of(job_id)
        return None if branch is None else await branch.flow.awaited(job_id)

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        branch = await self._crowd.branch_of(job_id)
        return [] if branch is None else await branch.flow.before(job_id, after, limit)

    async def release(self, job_id: str) -> bool:
        branch = await self._crowd.branch_of(job_id)
        return False if branch is None else await branch.flow.release(job_id)

    async def held(self, after: str | None, limit: int) -> list[str]:
        answers = await self._crowd.read(lambda branch: branch.flow.held(after, limit))
        return sorted(job_id for _, found in answers for job_id in found)[:limit]

    async def proceed(self, sequence: str) -> None:
        await self._crowd.write("let go on", lambda branch: branch.flow.proceed(sequence))

    async def halted(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _, halted in await self._crowd.read(lambda branch: branch.flow.halted()):
            found |= halted
        return found

    async def overdue(self, limit: int) -> list[str]:
        answers = await self._crowd.read(lambda branch: branch.flow.overdue(limit))
        return [job_id for _, found in answers for job_id in found][:limit]


def _found(limits: Iterable[LimitRecord], place: Place) -> LimitRecord | None:
    return next((each for each in limits if (each.scope, each.name) == place), None)

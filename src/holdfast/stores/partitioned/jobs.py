"""Jobs: each in the partition that its id or its queue tells."""

from collections.abc import Sequence
from heapq import nlargest

from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Ticked,
)
from holdfast.stores.partitioned.adding import add
from holdfast.stores.partitioned.crowd import Crowd, gathered
from holdfast.stores.partitioned.ticking import tick_all


class PartitionedJobs:
    """The jobs of one session.

    Workers do not tick here: they serve each partition by itself. What is said of claims holds here too,
    except that a queue whose jobs are in several partitions is served one partition after the other.
    """

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        return await add(self._crowd, jobs) if jobs else []

    async def tick(self, tick: Tick) -> Ticked:
        return await tick_all(self._crowd, tick)

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        places = await self._places([each.job for each in extensions])
        held = dict.fromkeys(range(len(extensions)), Held.LOST)

        async def extend(name: str, some: list[int]) -> None:
            jobs = self._crowd.branches[name].jobs
            answers = await jobs.extend(worker, [extensions[each] for each in some])
            held.update(zip(some, answers, strict=True))

        await gathered([extend(name, some) for name, some in places.items()])
        return [held[place] for place in range(len(extensions))]

    async def expired(self, limit: int) -> list[JobRecord]:
        answers = await self._crowd.read(lambda branch: branch.jobs.expired(limit))
        found = [record for _, records in answers for record in records]
        return sorted(found, key=lambda record: (record.lease_until or 0, record.id))[:limit]

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        """The job stays in its partition, whatever queue it is given."""
        branch = await self._crowd.branch_of(job_id)
        return None if branch is None else await branch.jobs.edit(job_id, version, edit)

    async def delete(self, job_id: str) -> bool:
        branch = await self._crowd.branch_of(job_id)
        return True if branch is None else await branch.jobs.delete(job_id)

    async def get(self, job_id: str) -> JobRecord | None:
        return (await self.states([job_id]))[0]

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        found = await self._crowd.states(job_ids) if job_ids else {}
        return [found[job_id][1] if job_id in found else None for job_id in job_ids]

    async def find(self, query: Query) -> list[JobRecord]:
        answers = await self._crowd.read(lambda branch: branch.jobs.find(query))
        found = [record for _, records in answers for record in records]
        return nlargest(query.limit, found, key=lambda record: record.id)

    async def count(self, most: int | None = None) -> list[QueueCount]:
        found: dict[tuple[str, str], QueueCount] = {}
        for _, counts in await self._crowd.read(lambda branch: branch.jobs.count(most)):
            for each in counts:
                key = each.queue, each.state.value
                known = found.get(key)
                found[key] = each if known is None else _sum(known, each)
        return [found[key] for key in sorted(found)]

    async def history(self, job_id: str) -> list[AttemptRecord]:
        branch = await self._crowd.branch_of(job_id)
        return [] if branch is None else await branch.jobs.history(job_id)

    async def prune(self, older_than: int, limit: int) -> int:
        total = 0
        for branch in self._crowd.branches.values():
            if total < limit:
                total += await branch.jobs.prune(older_than, limit - total)
        return total

    async def _places(self, job_ids: Sequence[str]) -> dict[str, list[int]]:
        located = await self._crowd.locate(job_ids)
        places: dict[str, list[int]] = {}
        for place, job_id in enumerate(job_ids):
            if job_id in located:
                places.setdefault(located[job_id], []).append(place)
        return places


def _sum(one: QueueCount, other: QueueCount) -> QueueCount:
    """Both together: whatever is counted is added up."""
    counted = {
        name: getattr(one, name) + getattr(other, name)
        for name in one.__struct_fields__
        if name not in ("queue", "state", "exact")
    }
    return QueueCount(queue=one.queue, state=one.state, exact=one.exact and other.exact, **counted)

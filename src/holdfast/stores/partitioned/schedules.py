"""Schedules: each in the partition of the queue that it fires into."""

import asyncio
from collections.abc import Sequence

from holdfast.model.errors import StoreError
from holdfast.model.plan import target_of
from holdfast.model.records import Verdict
from holdfast.model.scheduling import ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.stores.partitioned.branch import Branch
from holdfast.stores.partitioned.crowd import Crowd


class PartitionedSchedules:
    """The schedules of one session. One that is stored stays where it is, whatever it fires later.

    One whose definition tells neither queue nor topic is kept at home.
    """

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        """A term is that of the partition to which the schedule belongs."""
        stored = await self._find([write.name for write in writes]) if writes else {}
        by_branch: dict[str, list[int]] = {}
        for place, write in enumerate(writes):
            branch = stored[write.name][0] if write.name in stored else self._target(write)
            by_branch.setdefault(branch.name, []).append(place)
        verdicts: dict[int, Verdict] = {}
        for name, some in by_branch.items():
            answer = await self._crowd.branches[name].schedules.write([writes[each] for each in some], term)
            if answer is None:
                return None
            verdicts.update(zip(some, answer, strict=True))
        return [verdicts[place] for place in range(len(writes))]

    def _target(self, write: ScheduleWrite) -> Branch:
        queue, topic = target_of(write.definition)
        layout = self._crowd.layout
        if queue is not None:
            return self._crowd.branches[layout.of_queue(queue)]
        return self._crowd.home if topic is None else self._crowd.branches[layout.of_topic(topic)]

    async def remove(self, name: str) -> bool:
        return any(await self._crowd.write("removed", lambda branch: branch.schedules.remove(name)))

    async def get(self, names: Sequence[str]) -> Schedules:
        """Each once. StoreError if one that was not found may be in a partition that does not answer."""
        found = await self._find(names)
        records = [found[name][1] for name in names if name in found]
        now = next((told.now for _, _, told in found.values()), None)
        if now is None:
            now = (await self._crowd.home.schedules.get(())).now
        return Schedules(now=now, records=records)

    async def _find(self, names: Sequence[str]) -> dict[str, tuple[Branch, ScheduleRecord, Schedules]]:
        found: dict[str, tuple[Branch, ScheduleRecord, Schedules]] = {}
        branches = list(self._crowd.branches.values())
        answers = await asyncio.gather(
            *(branch.schedules.get(names) for branch in branches), return_exceptions=True
        )
        faults: list[BaseException] = []
        for branch, answer in zip(branches, answers, strict=True):
            if isinstance(answer, BaseException):
                faults.append(answer)
            else:
                found.update({each.name: (branch, each, answer) for each in answer.records})
        for fault in faults:
            if not isinstance(fault, StoreError) or any(name not in found for name in names):
                raise fault
        return found

    async def list(self, after: str, limit: int) -> Schedules:
        answers = await self._crowd.read(lambda branch: branch.schedules.list(after, limit))
        found = sorted((each for _, told in answers for each in told.records), key=lambda each: each.name)
        return Schedules(now=answers[0][1].now, records=found[:limit])

    async def due(self, limit: int) -> Schedules:
        answers = [told for _, told in await self._crowd.read(lambda branch: branch.schedules.due(limit))]
        found = [(_urgency(each), each) for told in answers for each in told.records]
        found.sort(key=lambda each: each[0])
        looks = [told.next_look for told in answers if told.next_look is not None]
        return Schedules(
            now=answers[0].now,
            records=[each for _, each in found[:limit]],
            next_look=0 if len(found) > limit else min(looks, default=None),
        )


def _urgency(record: ScheduleRecord) -> tuple[bool, int, str]:
    is_waiting = record.waits
    return (is_waiting, 0 if is_waiting or record.look_at is None else record.look_at, record.name)

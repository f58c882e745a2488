"""Events: each in the partition of its topic, or of the job that it was emitted by."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from holdfast.model.errors import InvalidEvent
from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.partition import own_position, partly, whole_position
from holdfast.model.records import Added, NewJob
from holdfast.stores.partitioned.branch import Branch
from holdfast.stores.partitioned.crowd import Crowd


class PartitionedEvents:
    """The events of one session, for listing. Groups consume the log of each partition by itself.

    Seen over all, positions have gaps, and a later event may have a lower one: they tell the partition too.
    """

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._branches = list(crowd.branches.values())

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        """One write for each partition that the topics belong to. Jobs go along to the one of the topics."""
        layout = self._crowd.layout
        by_name: dict[str, list[NewEvent]] = {}
        for event in events:
            by_name.setdefault(layout.of_topic(event.topic), []).append(event)
        if not by_name:
            return (
                await self._crowd.branches[layout.of_queue(jobs[0].queue)].events.append((), jobs)
                if jobs
                else []
            )
        if len(by_name) == 1:
            [name] = by_name
            return await self._crowd.branches[name].events.append(events, jobs)
        if jobs:
            raise InvalidEvent(
                "topic",
                f"the topics belong to the partitions {', '.join(sorted(by_name))}, so jobs cannot be stored "
                "with all of them in one commit; map the topics to one partition",
            )
        answers = await asyncio.gather(
            *(self._crowd.branches[name].events.append(some) for name, some in by_name.items()),
            return_exceptions=True,
        )
        faults = [answer for answer in answers if isinstance(answer, BaseException)]
        if faults:
            outcomes = zip(by_name.values(), answers, strict=True)
            stored = [event.id for some, answer in outcomes if isinstance(answer, list) for event in some]
            raise partly(faults, stored, [event.id for event in events])
        return []

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        found: list[EventRecord] = []
        upto = after
        for branch, page in await self._crowd.read(
            lambda each: _read(each, self._local(each, after), limit, topic, aggregate)
        ):
            found += [replace(each, position=self._whole(branch, each.position)) for each in page.records]
            upto = max(upto, self._whole(branch, page.upto) if page.upto else 0)
        found.sort(key=lambda each: each.position)
        return EventPage(
            records=found[:limit], upto=found[limit - 1].position if len(found) >= limit else upto
        )

    async def last(self) -> int:
        answers = await self._crowd.read(lambda branch: branch.events.last())
        return max((self._whole(branch, last) for branch, last in answers if last), default=0)

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        total = 0
        for branch in self._branches:
            if total < limit:
                local = {topic: self._local(branch, upto) for topic, upto in passed.items()}
                total += await branch.events.prune(older_than, local, limit - total)
        return total

    def _whole(self, branch: Branch, position: int) -> int:
        return whole_position(position, self._branches.index(branch))

    def _local(self, branch: Branch, position: int) -> int:
        return own_position(position, self._branches.index(branch))


async def _read(
    branch: Branch, after: int, limit: int, topic: str | None, aggregate: str | None
) -> EventPage:
    """What the partition has behind a position, also if it would rather say it in several pages."""
    found: list[EventRecord] = []
    last = await branch.events.last()
    while True:
        page = await branch.events.read(after, limit - len(found), topic=topic, aggregate=aggregate)
        found += page.records
        if len(found) >= limit or page.upto >= last or page.upto <= after:
            return EventPage(records=found, upto=page.upto)
        after = page.upto

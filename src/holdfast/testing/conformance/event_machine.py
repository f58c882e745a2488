"""The machine with events: appended, moved along, read and pruned in any order.

class MyMachine(EventMachine, ComparedMachine):
    ...
"""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from msgspec.structs import replace

from holdfast.model.events import EventRecord, NewEvent
from holdfast.model.records import NewJob, Want
from holdfast.model.timing import SECOND
from holdfast.store import Session
from holdfast.testing.conformance import draws
from holdfast.testing.conformance.machine import StoreMachine

EVERYTHING = Want(queues=draws.QUEUES, tasks=frozenset(draws.TASKS), limit=2, lease=60 * SECOND)


class EventMachine(StoreMachine):
    """Checks also that events keep their places, and that no place or version is given twice."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[EventRecord] = []
        """What was seen after the last step."""
        self.last = 0
        self.versions: dict[tuple[str, str], int] = {}

    @rule(events=st.lists(draws.new_events, max_size=4), jobs=st.lists(draws.new_jobs, max_size=2))
    def append(self, events: list[NewEvent], jobs: list[NewJob]) -> None:
        self.ask(lambda session: session.events.append(events, jobs))

    @rule(data=st.data(), worker=draws.workers, events=st.lists(draws.new_events, min_size=1, max_size=3))
    def end_with_events(self, data: st.DataObject, worker: str, events: list[NewEvent]) -> None:
        """Ends what the worker holds or gets, with something to tell; most of the moves are accepted."""
        held = [job for job in self.jobs.values() if job.worker == worker]
        for job in (held or self.send(worker, [], EVERYTHING).claimed)[:2]:
            move = data.draw(draws.ends_of(job.id, job.token).filter(lambda drawn: drawn.outcome is not None))
            self.send(worker, [replace(move, events=tuple(events))], None)

    @rule(
        back=st.integers(0, 6),
        limit=st.integers(1, 4),
        topic=st.none() | draws.topics,
        aggregate=st.none() | draws.aggregates,
    )
    def read_on(self, back: int, limit: int, topic: str | None, aggregate: str | None) -> None:
        after = max(0, self.last - back)
        aggregate = aggregate if topic is not None else None

        async def read(session: Session) -> list[EventRecord]:
            return await _read(session, after, limit, topic, aggregate)

        assert self.ask(read) == [
            event
            for event in self.events
            if event.position > after
            and topic in (None, event.topic)
            and aggregate in (None, event.aggregate)
        ]

    @rule(
        older_than=st.sampled_from([0, 0, SECOND]),
        standing=st.dictionaries(draws.topics, st.integers(0, 6)),
        limit=st.integers(1, 5),
    )
    def prune_events(self, older_than: int, standing: dict[str, int], limit: int) -> None:
        passed = {topic: max(0, self.last - behind) for topic, behind in standing.items()}
        before = self.clock.now() - older_than
        old = [
            event
            for event in self.events
            if event.at < before and event.position <= passed.get(event.topic, event.position)
        ]
        removed = self.ask(lambda session: session.events.prune(older_than, passed, limit))
        assert removed == len(old[:limit])
        left = self.ask(_all)
        assert left == [event for event in self.events if event not in old[:limit]]

    @invariant()
    def events_keep_their_places(self) -> None:
        events = self.ask(_all)
        places = [event.position for event in events]
        assert places == sorted(set(places))
        fresh = [event for event in events if event.position > self.last]
        assert [event for event in self.events if event in events] == events[: len(events) - len(fresh)]
        assert [event.position for event in fresh] == list(range(self.last + 1, self.last + 1 + len(fresh)))
        self.last += len(fresh)
        assert self.ask(lambda session: session.events.last()) == self.last
        for event in fresh:
            assert (event.version is None) is (event.aggregate is None)
            if event.aggregate is not None and event.version is not None:
                assert event.version > self.versions.get((event.topic, event.aggregate), 0)
                self.versions[event.topic, event.aggregate] = event.version
        self.events = events


async def _all(session: Session) -> list[EventRecord]:
    return await _read(session, 0, 1_000, None, None)


async def _read(
    session: Session, after: int, limit: int, topic: str | None, aggregate: str | None
) -> list[EventRecord]:
    """Everything behind a position, page by page; how much a page tells is for the store to say."""
    found: list[EventRecord] = []
    last = await session.events.last()
    while after < last:
        page = await session.events.read(after, limit, topic=topic, aggregate=aggregate)
        assert page.upto > after
        found += page.records
        after = page.upto
    return found

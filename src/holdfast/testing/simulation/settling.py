"""Whether all that was accepted has come to an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.model.progress import record_name
from holdfast.store import Session
from holdfast.testing.simulation.oracle import Oracle
from holdfast.testing.simulation.wire import answered

if TYPE_CHECKING:
    from holdfast.app import Holdfast

PAGE = 1_000


class Settling:
    """What was there when this was made: jobs to be finished, and events to be handled."""

    def __init__(self, app: Holdfast, oracle: Oracle, session: Session) -> None:
        self._oracle = oracle
        self._session = session
        self._jobs = set(oracle.jobs.live)
        self._last = _last_positions(session)
        self._groups = list(app.subscriptions) if app.settings.event_consumer else []

    def is_over(self) -> bool:
        if not self._jobs.isdisjoint(self._oracle.jobs.live):
            self._jobs &= self._oracle.jobs.live
            return False
        return not any(self._groups_left())

    def left(self) -> Iterator[str]:
        """What has not come to an end."""
        for job_id in sorted(self._jobs & self._oracle.jobs.live):
            yield f"job {job_id} is not finished: {answered(self._session.jobs.get(job_id))}"
        yield from self._groups_left()

    def _groups_left(self) -> Iterator[str]:
        for group, topic in self._groups:
            last = self._last.get(topic, 0)
            progress = self._oracle.schedules.progress.get(record_name(group, topic))
            offset = 0 if progress is None else progress.offset
            if offset < last:
                yield f"group {group} has come to event {offset} of topic {topic}, and not to {last}"
            elif progress is not None and progress.next_retry() is not None:
                yield f"group {group} has events that are to be tried again"


def _last_positions(session: Session) -> dict[str, int]:
    """The last position of each topic."""
    last: dict[str, int] = {}
    after = 0
    while (page := answered(session.events.read(after, PAGE))).records:
        for event in page.records:
            last[event.topic] = event.position
        after = page.upto
    return last

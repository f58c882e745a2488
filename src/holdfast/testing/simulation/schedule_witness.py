"""Watches what the store says about schedules, and about how far groups have come with events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.model.progress import Progress, decode, is_schedule
from holdfast.model.records import Verdict
from holdfast.model.scheduling import ScheduleWrite, as_written


class ScheduleWitness:
    """Objects to a due time that is fired twice, to a write on top of another, and to progress that is lost.

    `progress` is how far each group has come, by its record's name.
    """

    def __init__(self, object_to: Callable[[str], None]) -> None:
        self._object_to = object_to
        self._written: dict[str, tuple[int, str]] = {}
        self._fired: set[str] = set()
        self.progress: dict[str, Progress] = {}
        self.firings = 0

    def written(self, writes: Sequence[ScheduleWrite], verdicts: Sequence[Verdict]) -> list[ScheduleWrite]:
        """Takes note; gives those that were not repeated."""
        new: list[ScheduleWrite] = []
        for write, verdict in zip(writes, verdicts, strict=True):
            version, mark = self._written.get(write.name, (0, None))
            is_repeat = (version, mark) == (write.version + 1, write.mark)
            if verdict is not Verdict.ACCEPTED or is_repeat:
                continue
            if version != write.version or write.after not in {None, mark}:
                self._object_to(f"schedule {write.name}: {write.version} was written over {version}")
            self._written[write.name] = (write.version + 1, write.mark)
            self._look_at(write)
            new.append(write)
        return new

    def _look_at(self, write: ScheduleWrite) -> None:
        if not is_schedule(write.name):
            self._follow(write)
            return
        for fired in (*(job.id for job in write.jobs), *(event.id for event in write.events)):
            self.firings += 1
            if fired in self._fired:
                self._object_to(f"schedule {write.name}: {fired} was fired twice for one due time")
            self._fired.add(fired)

    def _follow(self, write: ScheduleWrite) -> None:
        _, progress = decode(as_written(write))
        before = self.progress.get(write.name)
        if before is not None and progress.offset < before.offset:
            self._object_to(f"{write.name} went back from event {before.offset} to {progress.offset}")
        self.progress[write.name] = progress

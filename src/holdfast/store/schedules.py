"""Recurring work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.records import Verdict
from holdfast.model.scheduling import Schedules, ScheduleWrite, Term


class ScheduleStore(Protocol):
    """Recurring work: kept, found when it is time, and written only as it was seen."""

    async def write(self, writes: Sequence[ScheduleWrite], term: Term | None = None) -> list[Verdict] | None:
        """Stores schedules as given, each if its version is still the stored one, which rises by one.

        One with `after` is refused also unless that is the mark of the last write: versions begin anew when a
        schedule is removed, marks never recur. With each its jobs are added as by `add`, and its events
        appended, or not at all; a job whose id or key is taken is left out. A refused write changes nothing
        and does not touch the others; one whose mark was the last to be written, at this very version, is a
        repeat, and accepted. With a `term`, if that lock is not held by that owner under that token at the
        store's now, nothing is written and the answer is None.
        """
        ...

    async def remove(self, name: str) -> bool:
        """Removes a schedule; its jobs stay. False if there is none of that name, as for a repeat."""
        ...

    async def get(self, names: Sequence[str]) -> Schedules:
        """Those that are stored, in the order asked for."""
        ...

    async def list(self, after: str, limit: int) -> Schedules:
        """Up to `limit` of them by name, the first one behind `after`."""
        ...

    async def due(self, limit: int) -> Schedules:
        """Up to `limit` to be looked at now: by `look_at` (<= now) and name, then by name those that wait.

        One that waits is among them if its job is finished or gone; of many that wait, a call may look at a
        part, and the next calls at the others. `next_look` is how long until the next `look_at`, 0 if more
        than `limit` have come; None if there is none.
        """
        ...

"""The locks that are held, for those who look on."""

from __future__ import annotations

from itertools import takewhile

from holdfast.engine.partition import each_part
from holdfast.model.errors import InvalidLock
from holdfast.model.overview import LockInfo
from holdfast.store import Session

MOST_LISTED = 1_000


async def held_locks(session: Session, limit: int, after: str | None) -> list[LockInfo]:
    """Up to `limit` of them by name, behind `after`; those of one name, of several partitions, together."""
    if isinstance(limit, bool) or not 1 <= limit <= MOST_LISTED:
        raise InvalidLock("limit", f"{limit!r} is not between 1 and {MOST_LISTED}")
    found = [
        LockInfo.from_record(record, partition)
        for partition, records in await each_part(
            session, lambda part: part.locks.held(after or "", limit + 1)
        )
        for record in records
    ]
    found.sort(key=lambda lock: (lock.name, lock.partition or ""))
    page = found[:limit]
    if len(found) > limit and found[limit].name == page[-1].name:
        # The next page begins behind a name, so this one has all of its last name, or nothing of it.
        cut = found[limit].name
        whole = list(takewhile(lambda lock: lock.name != cut, page))
        page = whole or [lock for lock in found if lock.name == cut]
    return page

"""Locks that are held, and who waits for them."""

from __future__ import annotations

import msgspec

from holdfast.web.access import Role
from holdfast.web.fields import Page
from holdfast.web.routing import Incoming, Routes

routes = Routes()


class LocksQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many, behind which name."""

    limit: Page = 100
    after: str | None = None


class LockDocument(msgspec.Struct, kw_only=True):
    """A lock: its holder, the token of the grant as text, the seconds left, and how many wait for it.

    One that is `internal` is our own, such as that of the leader.
    """

    name: str
    owner: str
    token: str
    left: float
    waiters: int
    internal: bool
    partition: str | None


class LocksAnswer(msgspec.Struct, kw_only=True):
    """Held locks by name; `after` asks for the next page, null when this was the last."""

    locks: list[LockDocument]
    after: str | None


@routes.add("GET", "/locks", Role.READ)
async def list_locks(incoming: Incoming[LocksQuery, None]) -> LocksAnswer:
    """Lists the locks that are held."""
    query = incoming.query
    with incoming.app.partitions.tolerating():
        found = await incoming.app.held_locks(limit=query.limit, after=query.after)
    return LocksAnswer(
        locks=[
            LockDocument(
                name=lock.name,
                owner=lock.owner,
                token=str(lock.token),
                left=lock.left,
                waiters=lock.waiters,
                internal=lock.internal,
                partition=lock.partition,
            )
            for lock in found
        ],
        after=found[-1].name if len(found) == query.limit else None,
    )

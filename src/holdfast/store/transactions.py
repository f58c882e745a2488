"""Work inside transactions that others commit."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from holdfast.model.events import NewEvent
from holdfast.model.records import Added, Move, NewJob, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term


class Transactions(Protocol):
    """Work inside a database transaction that somebody else commits. Nothing here ever commits or rolls back.

    Connections may be blocking (the `_sync` forms) or async. Each raises NotInTransaction if none is open.
    """

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]: ...

    def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> Awaitable[list[Added]]: ...

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        """The move, guarded as in `tick`, as part of the open transaction."""
        ...

    def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Awaitable[Verdict]: ...

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None: ...

    def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> Awaitable[None]: ...

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        """The write, guarded as in `ScheduleStore.write`, as part of the open transaction.

        Refused also if the term is over; where the open transaction keeps others from writing, only if
        another has had the lock since. Elsewhere the lock can be renewed while the transaction is open.
        """
        ...

    def write_in(
        self, connection: Any, namespace: str, write: ScheduleWrite, term: Term
    ) -> Awaitable[Verdict]: ...

    def begin_sync(self) -> AbstractContextManager[Any]:
        """A connection with an open write transaction; commits when left, rolls back on an exception."""
        ...

    def begin(self) -> AbstractAsyncContextManager[Any]:
        """The same for async code; what it yields is used with the `_in` forms."""
        ...

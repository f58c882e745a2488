"""A point of a store call at which the process kills itself."""

import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

from holdfast import OutcomeUnknown
from holdfast.model.lifecycle import Ending
from holdfast.model.records import Tick
from holdfast.stores.sqlite.fleet import SqliteFleet
from holdfast.stores.sqlite.jobs import SqliteJobs

POINTS = ("before", "after", "lost")
"""Inside the transaction just before its commit; just after the commit; after the answer was lost and the
caller has repeated the call, or has gone on without."""


def ends_with(outcome: Ending | None) -> Callable[[Tick], bool]:
    return lambda tick: any(move.outcome is outcome and not move.if_expired for move in tick.moves)


def anything(*args: object) -> bool:
    return True


CALLS: dict[str, tuple[str, Callable[..., bool]]] = {
    "add": ("add", anything),
    "claim": ("tick", lambda tick: tick.want is not None and not tick.moves),
    "start": ("tick", ends_with(None)),
    "complete": ("tick", ends_with(Ending.SUCCESS)),
    "retry": ("tick", ends_with(Ending.RETRY)),
    "dead-letter": ("tick", ends_with(Ending.FAILED)),
    "release": ("tick", ends_with(Ending.RELEASED)),
    "reclaim": ("tick", lambda tick: any(move.if_expired for move in tick.moves)),
    "extend": ("extend", anything),
    "cancel": ("edit", anything),
    "ask-cancel": ("edit", anything),
    "replay": ("edit", anything),
    "change": ("edit", anything),
    "delete": ("delete", anything),
    "prune": ("prune", anything),
    "register": ("register", anything),
    "beat": ("beat", anything),
    "retire": ("retire", anything),
    "pause": ("pause", anything),
    "resume": ("resume", anything),
}
"""Every way to change the store: the method, and which of its calls are meant."""


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


class Failpoint:
    """Ends the process at a point of the first call that is meant, once it is set."""

    def __init__(self, call: str, point: str) -> None:
        self._method, self._is_meant = CALLS[call]
        self._point = point
        self._is_set = False
        self._next_commit: str | None = None
        self.is_lost = False

    def set(self) -> None:
        self._is_set = True

    def install(self) -> None:
        connect: Any = partial(sqlite3.connect, factory=partial(Connection, failpoint=self))
        sqlite3.connect = connect
        part = SqliteFleet if hasattr(SqliteFleet, self._method) else SqliteJobs
        setattr(part, self._method, self._failing(getattr(part, self._method)))

    def committing(self, commit: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        if self._next_commit == "before":
            die()
        cursor = commit()
        if self._next_commit == "after":
            die()
        return cursor

    def _failing(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any) -> Any:
            if not self._is_set or not self._is_meant(*args[1:]):
                return await method(*args)
            if self._point == "lost" and not self.is_lost:
                answer = await method(*args)
                if self._method == "tick" and not args[1].moves and not answer.claimed:
                    return answer
                self.is_lost = True
                raise OutcomeUnknown("the answer was lost")
            self._next_commit = "after" if self.is_lost else self._point
            answer = await method(*args)
            self._next_commit = None
            if self.is_lost:
                die()
            return answer

        return call


class Connection(sqlite3.Connection):
    """Tells the failpoint of commits that write something."""

    def __init__(self, *args: Any, failpoint: Failpoint, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failpoint = failpoint
        self._changes = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        execute = partial(super().execute, sql, *values)
        if sql != "COMMIT":
            return execute()
        before, self._changes = self._changes, self.total_changes
        return execute() if before == self._changes else self._failpoint.committing(execute)

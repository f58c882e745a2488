"""A point of a call to Redis at which the process kills itself."""

import asyncio
from typing import Any

from holdfast.stores.redis.database import Database
from holdfast.stores.redis.fleet import RedisFleet
from holdfast.stores.redis.jobs import RedisJobs
from tests.chaos.failpoint import Failpoint, die

_run = Database.run
_CLAIMED = 6
"""Where a tick tells what it has claimed."""


class RedisFailpoint(Failpoint):
    """The same points: a call is one script, which the server has not been sent, or has run.

    Only in the task that makes the call: others are made at the same time.
    """

    @property
    def _next_commit(self) -> str | None:
        point, task = self._marked
        return point if task is asyncio.current_task() else None

    @_next_commit.setter
    def _next_commit(self, point: str | None) -> None:
        self._marked = (point, asyncio.current_task())

    def install(self) -> None:
        part = RedisFleet if hasattr(RedisFleet, self._method) else RedisJobs
        setattr(part, self._method, self._failing(getattr(part, self._method)))
        failpoint = self

        async def run(database: Database, name: str, *args: object, writes: bool = True) -> Any:
            point = failpoint._next_commit if writes else None
            if point == "before":
                die()
            answer = await _run(database, name, *args, writes=writes)
            if name.startswith("tick") and len(answer) <= _CLAIMED:
                return answer  # nothing was done; a script that knows more is sent next
            is_idle = name == "tick_plain" and not args[4] and not answer[_CLAIMED]
            if point == "after" and not is_idle:
                die()
            return answer

        Database.run = run  # type: ignore[method-assign, assignment]

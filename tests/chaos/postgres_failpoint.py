"""A point of a call to PostgreSQL at which the process kills itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.fleet import PostgresFleet
from holdfast.stores.postgres.jobs import PostgresJobs
from tests.chaos.failpoint import Failpoint, die

_run = Database.run


class PostgresFailpoint(Failpoint):
    """The same points: a call is made in a transaction that is seen to be committed, or not to be.

    Only in the task that makes the call: others commit at the same time.
    """

    @property
    def _next_commit(self) -> str | None:
        point, task = self._marked
        return point if task is asyncio.current_task() else None

    @_next_commit.setter
    def _next_commit(self, point: str | None) -> None:
        self._marked = (point, asyncio.current_task())

    def install(self) -> None:
        part = PostgresFleet if hasattr(PostgresFleet, self._method) else PostgresJobs
        setattr(part, self._method, self._failing(getattr(part, self._method)))
        failpoint = self

        async def run(database: Database, work: Callable[[Any], Awaitable[Any]], *, writes: bool) -> Any:
            return await _run(database, failpoint.working(work) if writes else work, writes=writes)

        Database.run = run  # type: ignore[method-assign, assignment]

    def working(self, work: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        async def transact(connection: Any) -> Any:
            if self._next_commit is None:
                return await work(connection)
            transaction = connection.transaction()
            await transaction.start()
            answer = await work(connection)
            if not await connection.fetchval("SELECT pg_current_xact_id_if_assigned() IS NOT NULL"):
                await transaction.rollback()
                return answer
            if self._next_commit == "before":
                die()
            await transaction.commit()
            if self._next_commit == "after":
                die()
            return answer

        return transact

"""The job operations: which go to the writer, and which are reads."""

from collections.abc import Sequence

from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Ticked,
)
from holdfast.stores.sqlite import adding, claiming, editing, extending, reading
from holdfast.stores.sqlite.database import Database


class SqliteJobs:
    """Jobs of one namespace."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns
        self._last_seq: dict[str, int] = {}

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        return await self._database.write(self._ns, lambda tx: adding.add(tx, jobs), wakes=True)

    async def tick(self, tick: Tick) -> Ticked:
        if not tick.moves and not tick.repeat:
            # Nothing to write unless there is something to claim: an idle worker takes no lock.
            answer = await self._database.read(self._ns, lambda tx: claiming.peek(tx, tick))
            if answer is not None:
                return answer
        is_new = self._is_new(tick)
        return await self._database.write(
            self._ns,
            lambda tx: claiming.tick(tx, tick, is_new=is_new),
            wakes=claiming.may_wake(tick),
        )

    def _is_new(self, tick: Tick) -> bool:
        """Whether the seq is above all that this session saw of the worker, so that nothing is held by it."""
        last = self._last_seq.get(tick.worker)
        self._last_seq[tick.worker] = max(tick.seq, last or 0)
        return last is not None and tick.seq > last and not tick.repeat

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        if not extensions:
            return []
        return await self._database.write(
            self._ns, lambda tx: extending.extend(tx, worker, extensions), urgent=True
        )

    async def expired(self, limit: int) -> list[JobRecord]:
        return await self._database.read(self._ns, lambda tx: reading.expired(tx, limit))

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        return await self._database.write(
            self._ns, lambda tx: editing.edit(tx, job_id, version, edit), wakes=True
        )

    async def delete(self, job_id: str) -> bool:
        return await self._database.write(self._ns, lambda tx: editing.delete(tx, job_id))

    async def get(self, job_id: str) -> JobRecord | None:
        return (await self.states([job_id]))[0]

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return await self._database.read(self._ns, lambda tx: reading.states(tx, job_ids))

    async def find(self, query: Query) -> list[JobRecord]:
        return await self._database.read(self._ns, lambda tx: reading.find(tx, query), slow=True)

    async def count(self, most: int | None = None) -> list[QueueCount]:
        return await self._database.read(self._ns, reading.count, slow=True)

    async def history(self, job_id: str) -> list[AttemptRecord]:
        return await self._database.read(self._ns, lambda tx: reading.history(tx, job_id))

    async def prune(self, older_than: int, limit: int) -> int:
        return await self._database.write(self._ns, lambda tx: editing.prune(tx, older_than, limit))

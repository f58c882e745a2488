"""Work inside the caller's transaction, in the partition that it belongs to."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from msgspec.structs import replace

from holdfast.model.errors import ConfigurationError
from holdfast.model.events import NewEvent
from holdfast.model.partition import Layout, stamped, tag_of
from holdfast.model.plan import target_of
from holdfast.model.records import Added, Move, NewJob, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.store import Transactions
from holdfast.stores.partitioned.whose import database_of, named_database


class PartitionedTransactions:
    """The transactions of all partitions. A connection belongs to one of them.

    Whose it is can be told for most drivers; where it cannot, it is taken for the right one.
    """

    def __init__(self, layout: Layout, transactions: Mapping[str, Transactions | None]) -> None:
        self._layout = layout
        self._transactions = transactions
        self._databases = {each.name: named_database(each.url) for each in layout.partitions}

    def add_in_sync(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        jobs = self._placed(jobs)
        return self._of_jobs(connection, jobs).add_in_sync(connection, namespace, jobs)

    def add_in(self, connection: Any, namespace: str, jobs: Sequence[NewJob]) -> Awaitable[list[Added]]:
        jobs = self._placed(jobs)
        return self._of_jobs(connection, jobs).add_in(connection, namespace, jobs)

    def move_in_sync(self, connection: Any, namespace: str, worker: str, move: Move) -> Verdict:
        return self._of_job(connection, move.job).move_in_sync(connection, namespace, worker, move)

    def move_in(self, connection: Any, namespace: str, worker: str, move: Move) -> Awaitable[Verdict]:
        return self._of_job(connection, move.job).move_in(connection, namespace, worker, move)

    def append_in_sync(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> None:
        self._of_events(connection, events).append_in_sync(connection, namespace, events)

    def append_in(self, connection: Any, namespace: str, events: Sequence[NewEvent]) -> Awaitable[None]:
        return self._of_events(connection, events).append_in(connection, namespace, events)

    def write_in_sync(self, connection: Any, namespace: str, write: ScheduleWrite, term: Term) -> Verdict:
        return self._of_write(connection, write).write_in_sync(connection, namespace, write, term)

    def write_in(
        self, connection: Any, namespace: str, write: ScheduleWrite, term: Term
    ) -> Awaitable[Verdict]:
        return self._of_write(connection, write).write_in(connection, namespace, write, term)

    def begin_sync(self) -> AbstractContextManager[Any]:
        """In the home partition. A handler's own transaction is begun in the partition of its job."""
        return self._of([self._layout.home], "home").begin_sync()

    def begin(self) -> AbstractAsyncContextManager[Any]:
        return self._of([self._layout.home], "home").begin()

    def _placed(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """The jobs, with ids that tell their partition where the ids are fresh: nobody has seen them yet."""
        of_queue = self._layout.of_queue
        return [
            replace(job, id=stamped(job.id, tag_of(of_queue(job.queue)))) if job.fresh else job
            for job in jobs
        ]

    def _of_jobs(self, connection: Any, jobs: Sequence[NewJob]) -> Transactions:
        names = {self._layout.of_queue(job.queue) for job in jobs}
        return self._checked(connection, names, f"queue {', '.join(sorted({job.queue for job in jobs}))}")

    def _of_job(self, connection: Any, job_id: str) -> Transactions:
        name = self._layout.of_id(job_id) or self._owner(connection) or self._layout.home
        return self._checked(connection, {name}, f"job {job_id}")

    def _of_events(self, connection: Any, events: Sequence[NewEvent]) -> Transactions:
        names = {self._layout.of_topic(event.topic) for event in events}
        return self._checked(connection, names, f"topic {', '.join(sorted({each.topic for each in events}))}")

    def _of_write(self, connection: Any, write: ScheduleWrite) -> Transactions:
        queue, topic = target_of(write.definition)
        name = self._layout.home if topic is None else self._layout.of_topic(topic)
        name = name if queue is None else self._layout.of_queue(queue)
        return self._checked(connection, {name}, f"schedule {write.name}")

    def _checked(self, connection: Any, names: set[str], what: str) -> Transactions:
        owner = self._owner(connection)
        if owner is not None and names and owner not in names:
            raise ConfigurationError(
                f"{what} belongs to partition {', '.join(sorted(names))}, but the connection is one to "
                f"partition {owner}; use one to that database, or map it to partition {owner}",
                setting="store",
            )
        return self._of(names or {self._layout.home}, what)

    def _of(self, names: Iterable[str], what: str) -> Transactions:
        several = sorted(names)
        if len(several) > 1:
            raise ConfigurationError(
                f"{what} belong to the partitions {', '.join(several)}; one transaction has only one of them",
                setting="store",
            )
        found = self._transactions[several[0]]
        if found is None:
            raise ConfigurationError(
                f"partition {several[0]} has no transactions to join; use a SQL store for it", setting="store"
            )
        return found

    def _owner(self, connection: Any) -> str | None:
        """The one partition whose database the connection is to; None if that cannot be told."""
        told = database_of(connection)
        if told is None:
            return None
        owners = [name for name, database in self._databases.items() if database == told]
        return owners[0] if len(owners) == 1 else None

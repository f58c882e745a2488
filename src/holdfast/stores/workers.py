"""Workers as rows tell of them."""

from collections.abc import Sequence
from typing import Any

from holdfast.model.records import WorkerRecord


def worker_of(row: Sequence[Any]) -> WorkerRecord:
    """The worker of a row whose columns are in the order of the record's fields."""
    id_, host, pid, queues, tasks, concurrency, version, started, seen, live, report, reported = row
    return WorkerRecord(
        id=id_,
        host=host,
        pid=pid,
        queues=tuple(queues),
        tasks=tuple(tasks),
        concurrency=concurrency,
        version=version,
        started=started,
        seen=seen,
        live=bool(live),
        report=report,
        reported=reported,
    )

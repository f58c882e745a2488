"""Workers and queues: known in every partition."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.model.report import decode_report, encode_report, merged
from holdfast.stores.partitioned.crowd import Crowd


class PartitionedFleet:
    """A queue may have jobs in every partition, so it is paused in all; a worker serves them all."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        await self._crowd.write("registered", lambda branch: branch.fleet.register(worker, lease))

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        return all(
            await self._crowd.write("kept", lambda branch: branch.fleet.beat(worker_id, lease, report))
        )

    async def retire(self, worker_id: str) -> None:
        await self._crowd.write("retired", lambda branch: branch.fleet.retire(worker_id))

    async def workers(self) -> list[WorkerRecord]:
        """Each once, live if it is in any partition."""
        found: dict[str, list[WorkerRecord]] = {}
        for _, records in await self._crowd.read(lambda branch: branch.fleet.workers()):
            for record in records:
                found.setdefault(record.id, []).append(record)
        return [_together(found[worker]) for worker in sorted(found)]

    async def pause(self, queue: str) -> None:
        await self._crowd.write(f"queue {queue} is paused", lambda branch: branch.fleet.pause(queue))

    async def resume(self, queue: str) -> None:
        await self._crowd.write(f"queue {queue} is open", lambda branch: branch.fleet.resume(queue))

    async def queues(self) -> list[QueueRecord]:
        """A queue that is paused in one partition is shown as paused."""
        found: dict[str, list[QueueRecord]] = {}
        for _, records in await self._crowd.read(lambda branch: branch.fleet.queues()):
            for record in records:
                found.setdefault(record.name, []).append(record)
        return [
            QueueRecord(
                name=name,
                paused=any(each.paused for each in found[name]),
                paused_since=min(_known(each.paused_since for each in found[name]), default=None),
                oldest=max(_known(each.oldest for each in found[name]), default=None),
            )
            for name in sorted(found)
        ]


def _known(values: Iterable[int | None]) -> Iterator[int]:
    return (value for value in values if value is not None)


def _together(records: list[WorkerRecord]) -> WorkerRecord:
    """One worker as its partitions know it. Where each has a report of its part, they are told as one."""
    told = {each.report for each in records}
    reported = max(each.reported for each in records)
    return replace(
        records[-1],
        started=min(each.started for each in records),
        seen=max(each.seen for each in records),
        live=any(each.live for each in records),
        report=told.pop() if len(told) == 1 else _merged(records),
        reported=reported,
    )


def _merged(records: list[WorkerRecord]) -> bytes | None:
    found = [decode_report(each.report, each.reported) for each in records if each.report is not None]
    reports = [report for report in found if report is not None]
    return encode_report(merged(reports)) if reports else None

"""Workers and queues."""

from struct import Struct

import msgspec
from msgspec.structs import replace

from holdfast.model.records import QueueRecord, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.stores.bell import Bell
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.records import text

_DAY = 86_400 * SECOND
_TIMES = Struct(">qqq")
_INSTANT = Struct(">q")
_LIVE = frozenset(b"0125")
"""Counts of jobs that are not finished, by their first letter."""

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(WorkerRecord).decode


class RedisFleet:
    """Workers and queues of one namespace."""

    def __init__(self, database: Database, bell: Bell) -> None:
        self._database = database
        self._bell = bell

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        await self._database.run(
            "register", worker.id, lease, _encode(replace(worker, report=None, reported=0)), _DAY
        )

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        said = () if report is None else (report,)
        known: int = await self._database.run("beat", worker_id, lease, *said)
        return known == 1

    async def retire(self, worker_id: str) -> None:
        await self._database.run("retire", worker_id)

    async def workers(self) -> list[WorkerRecord]:
        found: list[WorkerRecord] = []
        for said, times, live, report in await self._database.run("workers", _DAY):
            try:
                worker = _decode(said or b"")
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue  # whoever it is will say so again when it is started anew
            started, seen, _ = _TIMES.unpack(times)
            worker = replace(worker, started=started, seen=seen, live=live == 1)
            found.append(worker if report is None else _with(worker, report))
        return sorted(found, key=lambda worker: worker.id)

    async def pause(self, queue: str) -> None:
        await self._database.run("pause", b"", queue, b"1")

    async def resume(self, queue: str) -> None:
        wake = self._bell.strike()
        await self._database.run("pause", wake or b"", queue, b"0")
        self._bell.struck(wake)

    async def queues(self) -> list[QueueRecord]:
        counts, *told = await self._database.run("queues", writes=False)
        paused, since, waited = (dict(zip(each[::2], each[1::2], strict=True)) for each in told)
        names = {field[1:] for field in counts if field and field[0] in _LIVE} | set(paused)
        found = [
            QueueRecord(
                name=text(name),
                paused=paused.get(name) == b"1",
                paused_since=_number(since.get(name)),
                oldest=_number(waited.get(name)),
            )
            for name in names
        ]
        return sorted(found, key=lambda queue: queue.name)


def _number(told: bytes | None) -> int | None:
    return int(told) if told is not None and told.isdigit() else None


def _with(worker: WorkerRecord, told: bytes) -> WorkerRecord:
    if len(told) < _INSTANT.size:
        return worker
    (reported,) = _INSTANT.unpack_from(told)
    return replace(worker, report=told[_INSTANT.size :], reported=reported)

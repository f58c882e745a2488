"""Workers and queues."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.records import QueueRecord, WorkerRecord


class FleetStore(Protocol):
    """Workers and queues."""

    async def register(self, worker: WorkerRecord, lease: int) -> None:
        """Makes the worker known and live for `lease`. Doing so again replaces what it said before.

        The store sets `seen` to its now, and `started` when the worker was not known. The last report of a
        worker that is known stays.
        """
        ...

    async def beat(self, worker_id: str, lease: int, report: bytes | None = None) -> bool:
        """Keeps the worker live for `lease` from now, and `seen`. False if it is not known.

        An expired one is live again. A `report` takes the place of the last one, with the store's now as
        `reported`; it is never read by the store.
        """
        ...

    async def retire(self, worker_id: str) -> None:
        """Forgets the worker. Its leases stay until they expire or are released."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """All known workers by id, the dead ones marked as not live.

        Those dead for a day are forgotten, at the latest by this call.
        """
        ...

    async def pause(self, queue: str) -> None:
        """Pauses the queue. One that is paused stays so since it was."""
        ...

    async def resume(self, queue: str) -> None: ...

    async def queues(self) -> list[QueueRecord]:
        """Queues that have a live job or were ever paused, by name.

        `oldest` is the longest that one of the due jobs has waited: since it was due, or since it was created
        if that is later. None if there are none; those that are parked do not count. Cheap with many jobs, so
        of those that are ready only the first of each priority need be looked at, and of a hundred priorities
        at most, and of those that nobody has made ready yet the one due first. It is less than the longest
        only where one comes first that waits for a shorter time: it was due before it was created, or its
        fair key has had less.
        """
        ...

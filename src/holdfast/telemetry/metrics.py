"""What an application does, in numbers: counted from its notices, asked of its store and of the way to it."""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol

from holdfast.engine.notices import Notice, Notices
from holdfast.model.errors import StoreError
from holdfast.model.overview import QueueInfo
from holdfast.model.timing import Seconds, seconds
from holdfast.store import Store
from holdfast.store.circuit import CircuitReport, circuits
from holdfast.telemetry import exposition
from holdfast.telemetry.instruments import Family
from holdfast.telemetry.tally import Observer, Tally

CONTENT_TYPE = exposition.CONTENT_TYPE


class Listing(Protocol):
    """What tells of all queues."""

    async def list(self, *, exact: bool = True) -> list[QueueInfo]: ...


class Application(Protocol):
    """What is needed of a Holdfast."""

    @property
    def notices(self) -> Notices: ...

    @property
    def store(self) -> Store: ...

    @property
    def queues(self) -> Listing: ...


class Metrics:
    """Counts what happens in this process's application, from now until it is closed.

    May be used from any thread, except for `collect`, which belongs where the application is open.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._tally = Tally()
        self._lock = threading.Lock()
        self._stop = app.notices.listen(self._hear)
        self._last: dict[str, CircuitReport] | None = None

    async def collect(self, timeout: Seconds = 5) -> str:
        """Asks the store for the sizes of the queues, and renders all.

        If it does not answer in time, the rest is rendered, without them, and `holdfast_store_up` is 0.
        """
        await self.measure(timeout)
        return self.render()

    async def measure(self, timeout: Seconds = 5) -> None:
        """Asks the store for the sizes of the queues, as `collect` does, and renders nothing."""
        self.take(await queues_within(self._app.queues, timeout))

    def take(self, queues: list[QueueInfo] | None) -> None:
        """Takes over what somebody else has asked for; None if the store did not answer."""
        with self._lock:
            self._tally.measured(queues)

    def render(self) -> str:
        """All metrics as Prometheus reads them; send it as CONTENT_TYPE.

        Asks nobody: sizes of queues are those of the last `collect`.
        """
        return exposition.render(self.families())

    def families(self) -> list[Family]:
        """All metrics as values, at one moment, for those who send them elsewhere."""
        reports = self._reports() if self._last is None else self._last
        with self._lock:
            self._tally.guarded(reports)
            return self._tally.families()

    def forward(self, observer: Observer | None) -> None:
        """Has somebody be told of each value that a histogram observes, as it is observed; None ends that."""
        with self._lock:
            self._tally.forward = observer

    def close(self) -> None:
        """Counts no more. What was counted stays readable."""
        self._stop()
        self._last = self._reports()

    def _reports(self) -> dict[str, CircuitReport]:
        return {name: circuit.report() for name, circuit in circuits(self._app.store).items()}

    def _hear(self, notice: Notice) -> None:
        with self._lock:
            self._tally.hear(notice)


async def queues_within(queues: Listing, timeout: Seconds) -> list[QueueInfo] | None:
    """All queues; None if the store does not answer in time."""
    try:
        async with asyncio.timeout(seconds(timeout)):
            return await queues.list(exact=False)
    except (StoreError, TimeoutError):
        return None

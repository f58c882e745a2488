"""How `holdfast worker` tells whether it is well: of itself, or of all its children."""

from __future__ import annotations

import http.client
import socket
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.app import Holdfast
from holdfast.model.errors import HoldfastError
from holdfast.model.health import Health, all_well
from holdfast.model.overview import QueueInfo
from holdfast.model.settings import Settings
from holdfast.telemetry import chorus, exposition
from holdfast.telemetry.endpoint import Endpoint, HealthFile
from holdfast.telemetry.metrics import Metrics, queues_within

T = TypeVar("T")

OWN = "/own"
VALUES, MEASURED = "/values", "/values/measured"
PROMPT = 0.5
"""So long is a process given to say how it is: who asks for all of them waits a second, often."""

LOOK = 2.0
"""So long is the store given to tell of its queues."""


@contextmanager
def telling(settings: Settings, health: Callable[[], Health], metrics: Callable[[], str]) -> Generator[None]:
    """Tells it where the settings want it told."""
    with ExitStack() as stack:
        if settings.health_port is not None:
            stack.enter_context(
                Endpoint(
                    settings.health_host, settings.health_port, health, metrics, token=settings.health_token
                )
            )
        if settings.health_file is not None:
            stack.enter_context(HealthFile(Path(settings.health_file), health))
        yield


@contextmanager
def telling_of_one(app: Holdfast, health: Callable[[], Health], inside: Path | None) -> Generator[None]:
    """Tells of a worker of this process: to its supervisor, if that gave it a place for it, else to all."""
    settings = app.settings
    if inside is None and settings.health_port is None:
        with telling(settings, health, str):
            yield
        return
    metrics = Metrics(app)
    looking = threading.Lock()

    def measured() -> Metrics:
        # One look at a time, and none for long: health is asked at the same door.
        if looking.acquire(blocking=False):
            try:
                metrics.take(_queues(app))
            finally:
                looking.release()
        return metrics

    try:
        if inside is None:
            with telling(settings, health, lambda: measured().render()):
                yield
        else:
            more = {
                OWN: lambda: msgspec.json.encode(health()),
                VALUES: lambda: chorus.encode(metrics.families()),
                MEASURED: lambda: chorus.encode(measured().families()),
            }
            with Endpoint(inside, 0, health, metrics.render, more=more):
                yield
    finally:
        metrics.close()


def _queues(app: Holdfast) -> list[QueueInfo] | None:
    """All queues; None if the store cannot be reached, or does not answer in time."""
    try:
        return app.sync.queues.wait_for("list", lambda queues: queues_within(queues, LOOK), LOOK)
    except (HoldfastError, TimeoutError):
        return None


class Children:
    """What the processes of a supervisor say of themselves, asked when somebody wants to know."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count

    def place_of(self, index: int) -> Path:
        """Where a process is to be asked."""
        return self._folder / str(index)

    def health(self) -> Health:
        """Well if all of them are."""
        return all_well(dict(zip(self._names(), self._each(self._health_of), strict=True)))

    def metrics(self) -> str:
        """Those of all who answer. One of them asks the store for the sizes of the queues."""
        told = dict(zip(map(str, range(self._count)), self._each(self._values_of), strict=True))
        return exposition.render(chorus.merged({name: words for name, words in told.items() if words}))

    def _names(self) -> list[str]:
        return [f"process {index}" for index in range(self._count)]

    def _each(self, ask: Callable[[int], T]) -> list[T]:
        with ThreadPoolExecutor(min(self._count, 32)) as threads:
            return [*threads.map(ask, range(self._count))]

    def _health_of(self, index: int) -> Health:
        try:
            return msgspec.json.decode(self._ask(index, OWN, PROMPT), type=Health)
        except (FileNotFoundError, ConnectionError):
            return Health(True, False, ("starting",))
        except (OSError, http.client.HTTPException, msgspec.MsgspecError):
            return Health(False, False, (f"no answer within {PROMPT:g} s",))

    def _values_of(self, index: int) -> bytes:
        try:
            return self._ask(index, VALUES if index else MEASURED, PROMPT if index else 3.0)
        except (OSError, http.client.HTTPException):
            return b""

    def _ask(self, index: int, path: str, patience: float) -> bytes:
        connection = _UnixConnection(str(self.place_of(index)), patience)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, patience: float) -> None:
        super().__init__("localhost", timeout=patience)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@contextmanager
def telling_of_all(settings: Settings, count: int) -> Generator[Children | None]:
    """Tells of all processes of this one; None if nobody wants to know."""
    if settings.health_port is None and settings.health_file is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        children = Children(Path(folder), count)
        with telling(settings, children.health, children.metrics):
            yield children

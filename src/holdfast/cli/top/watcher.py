"""Asks the store again and again, and keeps what it told. A store that is away is asked until it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from holdfast.app import Holdfast
from holdfast.cli.top.picture import Part, Picture, Way
from holdfast.cli.top.search import EVERYTHING, Search
from holdfast.engine.client import Page
from holdfast.engine.leader import LeaderInfo
from holdfast.model.errors import HoldfastError, SchemaMismatch, StoreError, StoreUnavailable
from holdfast.model.lifecycle import LEASED
from holdfast.model.masking import mask
from holdfast.model.pulse import Pulse
from holdfast.model.series import Series
from holdfast.store.circuit import circuits

SHOWN = 200
"""So many jobs, dead letters and locks are asked for at most."""
PATIENCE = 5.0
"""So many seconds may the answers to one look take."""
SHARE = 10
"""What a part costs is spent at most once in so many times as long."""
ALWAYS = frozenset({Part.QUEUES, Part.WORKERS, Part.LEADERS})


class Watcher:
    """Looks at a store every `interval` seconds, on the event loop that runs it.

    `wanted` are the parts to ask for beside those that are always; `search` says which jobs.
    """

    def __init__(self, app: Holdfast, interval: float, patience: float = PATIENCE) -> None:
        self.wanted: frozenset[Part] = frozenset(Part)
        self.search: Search = EVERYTHING
        self._app = app
        self.interval = interval
        self._patience = patience
        self._poked = asyncio.Event()
        self._is_open = False
        self._pulse, self._slow_pulse = Pulse(window=5), Pulse(window=60)
        self._series = Series(keep=600)
        self._due: dict[Part, float] = {}
        self._answered_at = time.monotonic()
        settings = self._app.settings
        self.picture = Picture(
            at=datetime.now(UTC),
            store=settings.store.partition(":")[0],
            namespace=settings.namespace,
        )

    @property
    def app(self) -> Holdfast:
        """The application, to act on. StoreUnavailable while it could not be opened."""
        if not self._is_open:
            raise StoreUnavailable("the store is away; try again when it is back")
        return self._app

    def poke(self) -> None:
        """Has it look now, also at what was just asked for."""
        self._due.clear()
        self._poked.set()

    async def run(self, tell: Callable[[Picture], None]) -> None:
        """Looks until it is cancelled, and tells each picture. Raises what waiting cannot mend."""
        while True:
            try:
                async with self.opened():
                    while True:
                        tell(await self.look())
                        await self._pause()
            except StoreError as error:
                if isinstance(error, SchemaMismatch):
                    raise
                self._failed(str(error))
            tell(self.picture)
            await self._pause()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """The application is open, and can be acted on, inside the block."""
        async with self._app:
            self._is_open = True
            try:
                yield
            finally:
                self._is_open = False

    async def look(self) -> Picture:
        """Asks for what is due, and makes the picture anew. The application must be open."""
        parts = [part for part in Part if part in ALWAYS | self.wanted]
        try:
            async with asyncio.timeout(self._patience):
                with self._app.partitions.tolerating() as missing:
                    started = time.monotonic()
                    leaders = await self._leaders()
                    answered = time.monotonic() - started
                    self._take(Part.LEADERS, leaders=leaders)
                    for part in parts:
                        await self._ask(part)
        except TimeoutError:
            self._failed(f"no answer within {self._patience:g} s")
        except HoldfastError as error:
            self._failed(str(error))
        else:
            self._answered_at = time.monotonic()
            self._measure()
            self._tell_way(Way(answered=answered, missing=dict(missing)))
        return self.picture

    async def _ask(self, part: Part) -> None:
        now = time.monotonic()
        if now < self._due.get(part, 0.0):
            return
        answers = await self._asking[part]()
        cost = time.monotonic() - now
        self._due[part] = now + SHARE * cost
        self._take(part, **answers)

    @property
    def _asking(self) -> dict[Part, Callable[[], Awaitable[dict[str, Any]]]]:
        app = self._app

        async def nothing() -> dict[str, Any]:
            return {}

        async def queues() -> dict[str, Any]:
            return {"queues": await app.queues.list(exact=False)}

        async def workers() -> dict[str, Any]:
            return {"workers": await app.workers()}

        async def schedules() -> dict[str, Any]:
            return {"schedules": await app.schedules.list()}

        async def running() -> dict[str, Any]:
            return {"running": await app.find(state=LEASED, limit=SHOWN)}

        async def dead() -> dict[str, Any]:
            return {"dead": await app.dlq.list(limit=SHOWN)}

        async def locks() -> dict[str, Any]:
            return {"locks": await app.held_locks(limit=SHOWN)}

        async def jobs() -> dict[str, Any]:
            page: Page = await self.search.find(app, SHOWN)
            return {"jobs": page, "more_jobs": page.cursor is not None}

        return {
            Part.LEADERS: nothing,
            Part.QUEUES: queues,
            Part.WORKERS: workers,
            Part.SCHEDULES: schedules,
            Part.RUNNING: running,
            Part.DEAD: dead,
            Part.LOCKS: locks,
            Part.JOBS: jobs,
        }

    async def _leaders(self) -> dict[str, LeaderInfo | None]:
        if self._app.partitions.names:
            return await self._app.partitions.leaders()
        return {"": await self._app.leader()}

    def _take(self, part: Part, **answers: Any) -> None:
        self.picture = replace(self.picture, told=self.picture.told | {part}, **answers)

    def _measure(self) -> None:
        now, at = time.monotonic(), datetime.now(UTC)
        pace = self._pulse.take(self.picture.workers, now)
        lately = self._slow_pulse.take(self.picture.workers, now).total
        self._series.add(at, self.picture.queues, pace)
        self.picture = replace(self.picture, at=at, pace=pace, lately=lately, points=self._series.points())

    def _failed(self, why: str) -> None:
        away = time.monotonic() - self._answered_at
        self._tell_way(replace(self.picture.way, fault=mask(why), away=away, missing={}))

    def _tell_way(self, way: Way) -> None:
        reports = {name: each.report() for name, each in circuits(self._app.store).items()}
        self.picture = replace(self.picture, way=replace(way, circuits=reports))

    async def _pause(self) -> None:
        """Waits for the next look, or until it is poked."""
        try:
            async with asyncio.timeout(self.interval):
                await self._poked.wait()
        except TimeoutError:
            pass
        self._poked.clear()

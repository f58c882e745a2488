"""The way to the store: opened when it is first needed, on the event loop that needs it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from holdfast.app import Holdfast
from holdfast.model.errors import StoreError
from holdfast.telemetry.logs import log

logger = logging.getLogger("holdfast.web")

_REST_SECONDS = 1.0
"""How long after a failure the store is not asked again: everybody gets the same answer meanwhile."""


def seen(task: asyncio.Task[Any]) -> None:
    """Whoever waited for the task may have left: then nobody needs to know how it failed."""
    if not task.cancelled():
        task.exception()


class Link:
    """Opens the application once for all requests, and again after a failure.

    A server that mounts us may not tell us when it starts or ends; an event loop that is gone is left alone.
    """

    def __init__(self, app: Holdfast, *, patience: float) -> None:
        self._app = app
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[None] | None = None
        self._failed: tuple[float, StoreError] | None = None
        self.is_open = False

    async def ensure(self) -> None:
        """Returns when the application is open; StoreError if it cannot be."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._opening, self._failed, self.is_open = loop, None, None, False
        if self.is_open:
            return
        if self._failed is not None and loop.time() < self._failed[0]:
            raise self._failed[1]
        if self._opening is None:
            self._opening = loop.create_task(self._open())
            self._opening.add_done_callback(seen)
        # One who leaves must not take the others with him.
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience):
                await self._app.__aenter__()
            self.is_open = True
            self._failed = None
        except (StoreError, TimeoutError) as error:
            known = (
                error if isinstance(error, StoreError) else StoreError(f"no answer in {self._patience:g} s")
            )
            self._failed = loop.time() + _REST_SECONDS, known
            log(logger, logging.WARNING, "the store cannot be opened", error=str(known))
            raise known from None
        finally:
            self._opening = None

    async def close(self) -> None:
        """Leaves the application if it was opened on this event loop."""
        if self._loop is asyncio.get_running_loop() and self.is_open:
            self.is_open = False
            await self._app.__aexit__(None, None, None)

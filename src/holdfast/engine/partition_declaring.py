"""Storing what an application declares in partitions of which one may be away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from holdfast.engine.declaring import Declaring
from holdfast.engine.outage import pauses
from holdfast.engine.schedules import Schedules
from holdfast.model.errors import StoreError
from holdfast.model.plan import Plan
from holdfast.store import Store
from holdfast.store.partitions import Partitioned

log = logging.getLogger("holdfast.schedules")


class PatientDeclaring(Declaring):
    """Opens the application, and stores its schedules; those of a partition that is away when it is back."""

    _later: asyncio.Task[None] | None = None

    async def declare(self, plans: list[Plan]) -> None:
        left = await self._declared(plans)
        if left:
            self._later = asyncio.get_running_loop().create_task(self._insist(left))

    async def _declared(self, plans: list[Plan]) -> list[Plan]:
        left: list[Plan] = []
        for plan in plans:
            try:
                await self._schedules.declare(plan)
            except StoreError as error:
                left.append(plan)
                fields = {"schedule": plan.schedule.name, "error": str(error)}
                log.warning("schedule not stored yet", extra={"fields": fields})
        return left

    async def _insist(self, plans: list[Plan]) -> None:
        for pause in pauses():
            await asyncio.sleep(pause)
            plans = await self._declared(plans)
            if not plans:
                return

    async def __aexit__(self, *error: object) -> None:
        later, self._later = self._later, None
        if later is not None:
            later.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await later
        await super().__aexit__(*error)


def make_declaring(
    store: Store,
    application: AbstractAsyncContextManager[Any],
    schedules: Schedules,
    plans: Callable[[], Iterable[Plan]],
) -> Declaring:
    """What opens the application and stores what it declares."""
    kind = PatientDeclaring if isinstance(store, Partitioned) else Declaring
    return kind(application, schedules, plans)

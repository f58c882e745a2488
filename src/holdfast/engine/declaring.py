"""What comes before the first job of a worker: its application is open, and what it declares is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from holdfast.engine.schedules import Schedules
from holdfast.model.plan import Plan


class Declaring:
    """Opens the application and stores its schedules. May be entered again once it is left, or has failed."""

    def __init__(
        self,
        application: AbstractAsyncContextManager[Any],
        schedules: Schedules,
        plans: Callable[[], Iterable[Plan]],
    ) -> None:
        self._application = application
        self._schedules = schedules
        self._plans = plans

    async def __aenter__(self) -> None:
        async with AsyncExitStack() as attempt:
            await attempt.enter_async_context(self._application)
            await self.declare(list(self._plans()))
            attempt.pop_all()

    async def declare(self, plans: list[Plan]) -> None:
        for plan in plans:
            await self._schedules.declare(plan)

    async def __aexit__(self, *error: object) -> None:
        await self._application.__aexit__(None, None, None)

"""The weights of queues as the store has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

from holdfast.model.errors import StoreError
from holdfast.model.flow import Scope
from holdfast.model.strategy import Strategy, Weighted
from holdfast.store import FlowStore, Session

log = logging.getLogger("holdfast.worker")


class Shares:
    """The strategy of a worker that goes by stored weights: it learns them anew every so many seconds."""

    def __init__(self) -> None:
        self._weighted = Weighted({})

    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]:
        return self._weighted.order(queues, turn, random)

    async def learn(self, flow: FlowStore) -> None:
        limits = await flow.limits()
        self._weighted = Weighted(
            {limit.name: limit.weight for limit in limits if limit.scope is Scope.QUEUE}
        )

    async def keep_learning(self, flow: FlowStore, pause: float) -> NoReturn:
        while True:
            try:
                await self.learn(flow)
            except (StoreError, TimeoutError) as error:
                log.warning("cannot learn the weights of queues", extra={"fields": {"error": str(error)}})
            await asyncio.sleep(pause)


@asynccontextmanager
async def learning(strategy: Strategy, session: Session, pause: float) -> AsyncGenerator[None]:
    """Keeps up with stored weights within the block, if the strategy goes by them."""
    if not isinstance(strategy, Shares):
        yield
        return
    task = asyncio.create_task(strategy.keep_learning(session.flow, pause))
    try:
        yield
    finally:
        task.cancel()


def followed(strategy: Strategy) -> Strategy:
    """The strategy itself, or for one that goes by stored weights, one that learns them."""
    return Shares() if isinstance(strategy, Weighted) and strategy.weights is None else strategy

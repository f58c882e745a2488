"""All consumers of a worker: each stands for its lock, and tells its handler of events when it has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.engine.candidate import Candidate, pause_after
from holdfast.engine.consumer import Consumer
from holdfast.engine.handling import Handling
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.model.errors import LeaseLost, LockLost, LockTimeout, StoreError
from holdfast.model.scheduling import Term
from holdfast.model.settings import Settings
from holdfast.model.subscription import Subscription
from holdfast.store import Session, Store

log = logging.getLogger("holdfast.candidate")


class Consumers:
    """Those of one worker, one for each subscription."""

    def __init__(
        self,
        store: Store,
        session: Session,
        subscriptions: Sequence[Subscription],
        settings: Settings,
        notices: Notices,
        worker: str,
        state: Any,
    ) -> None:
        self._session = session
        self._settings = settings
        self._notices = notices
        self._worker = worker
        self._consumers = [
            Consumer(
                each,
                session,
                settings,
                Handling(each, session, store.transactions, settings, notices, worker, state),
            )
            for each in subscriptions
        ]
        self._loop = asyncio.get_running_loop()
        self._renewer = Renewer(lambda: store.connect(settings.namespace), notices)
        self._locks = Locks(session.locks, self._renewer, notices)
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._end_listening: Callable[[], None] | None = None
        self.is_stopping = False

    def start(self) -> None:
        """Has each of them stand until it is stopped."""
        wakeups = self._session.wakeups
        if wakeups is not None and self._consumers:
            self._end_listening = wakeups.listen(self._wake)
        for consumer in self._consumers:
            lease = self._settings.leader_lease_seconds
            candidate = Candidate(self._locks, consumer.lock, self._worker, lease, self._notices, "consumer")
            self._tasks.append(self._loop.create_task(candidate.stand(consumer.follow)))

    async def drain(self) -> int:
        """Deals with what is there now, as far as no other worker does; how many events that were."""
        before = sum(consumer.handling.handled for consumer in self._consumers)
        self._tasks = [self._loop.create_task(self._drain(consumer)) for consumer in self._consumers]
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            self.stop(0)
            raise
        for task in self._tasks:
            if not task.cancelled():
                task.result()
        return sum(consumer.handling.handled for consumer in self._consumers) - before

    async def _drain(self, consumer: Consumer) -> None:
        failed = 0
        while not self.is_stopping:
            try:
                lease = self._settings.leader_lease_seconds
                async with await self._locks.acquire(consumer.lock, lease, 0, holder=self._worker) as grant:
                    await consumer.drain(Term(lock=grant.name, owner=grant.owner, token=grant.token))
                return
            except LockTimeout:
                return
            except (StoreError, TimeoutError, LockLost, LeaseLost) as error:
                failed += 1
                fields = {"lock": consumer.lock, "error": str(error) or type(error).__name__}
                log.warning("cannot do its duty for now", extra={"fields": fields})
                await asyncio.sleep(pause_after(failed))

    def stop(self, grace: float) -> None:
        """Ends each after the event that it is at; what is not done within `grace` seconds is cut off."""
        self.is_stopping = True
        for consumer in self._consumers:
            consumer.stop()
        for task, consumer in zip(self._tasks, self._consumers, strict=False):
            if consumer.is_following:
                self._timers.append(self._loop.call_later(grace, task.cancel))
            else:
                task.cancel()

    async def close(self) -> None:
        """Waits for their ends, and gives back their locks."""
        if self._end_listening is not None:
            self._end_listening()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for timer in self._timers:
            timer.cancel()
        await self._locks.close()
        await self._renewer.stop()

    def _wake(self) -> None:
        """From any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for consumer in self._consumers:
            consumer.woken.set()

"""One event on its way to one handler."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from holdfast.engine.bookmark import Bookmark, Change
from holdfast.engine.context import Context, Link
from holdfast.engine.ids import new_id
from holdfast.model.events import Event, EventRecord, NewEvent
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord, NewJob, Verdict
from holdfast.model.settings import Settings
from holdfast.model.subscription import Subscription
from holdfast.model.task import Call
from holdfast.model.timing import SECOND
from holdfast.store import Transactions


class Delivery(Link):
    """The link of a handler of events. Its success is the progress of its group.

    `was_refused` tells that a transaction could not take the progress along, so it was not to be committed;
    `is_joined`, that one could.
    """

    def __init__(
        self,
        event: EventRecord,
        failures: int,
        bookmark: Bookmark,
        change: Change,
        settings: Settings,
        transactions: Transactions | None,
        worker: str,
    ) -> None:
        self.event = event
        self.change = change
        self.jobs: list[NewJob] = []
        self.events: list[NewEvent] = []
        self.told: Stop | None = None
        self.was_refused = False
        self.is_joined = False
        self._bookmark = bookmark
        self._settings = settings
        self._transactions = transactions
        self.record = JobRecord(
            id=event.id,
            task=f"{bookmark.subscriber.group}/{event.topic}",
            queue=event.topic,
            payload=event.data,
            state=State.RUNNING,
            priority=0,
            due=event.at,
            created=event.at,
            run=failures + 1,
            failures=failures,
            token=bookmark.term.token,
            worker=worker,
            headers=event.headers,
        )

    @property
    def stop(self) -> Stop | None:
        return self.told

    @property
    def transactions(self) -> Transactions | None:
        return self._transactions

    def progress(self, fraction: float, note: str | None) -> None:
        """Nobody is shown how far the handling of an event is."""

    def enqueue(self, call: Call) -> str:
        job = call.to_new_job(new_id())
        self.jobs.append(job)
        return job.id

    def emit(self, event: Event[Any]) -> str:
        new = event.stored(new_id(), self._settings.payload_bytes)
        self.events.append(new)
        return new.id

    async def complete_in(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        namespace, bookmark = self._settings.namespace, self._bookmark
        write = bookmark.write(self.change(bookmark.progress), self.jobs, self.events)
        return self._joined(await transactions.write_in(connection, namespace, write, bookmark.term))

    def complete_in_sync(self, transactions: Transactions, connection: Any, value: object) -> Verdict:
        namespace, bookmark = self._settings.namespace, self._bookmark
        write = bookmark.write(self.change(bookmark.progress), self.jobs, self.events)
        return self._joined(transactions.write_in_sync(connection, namespace, write, bookmark.term))

    def committed(self) -> None:
        """Whether it was is seen in the store."""

    def _joined(self, verdict: Verdict) -> Verdict:
        if verdict is Verdict.ACCEPTED:
            self.is_joined = True
        else:
            self.was_refused = True
        return verdict


async def call(subscription: Subscription, delivery: Delivery, state: Any, patience: float) -> None:
    """Calls the handler and waits for its end; raises what it raises, or TimeoutError.

    A blocking handler that was told to stop has `patience` seconds to do so.
    """
    function, relay = subscription.function, subscription.relay
    if relay is not None:
        await relay([delivery.event])
        return
    assert function is not None
    arguments: list[Any] = [subscription.event(delivery.event)]
    if subscription.takes_context:
        arguments.insert(0, Context(delivery, state))
    limit = None if subscription.timeout is None else subscription.timeout / SECOND
    if subscription.is_async:
        async with asyncio.timeout(limit):
            await function(*arguments)
    else:
        await _in_thread(lambda: function(*arguments), delivery, limit, patience)


async def _in_thread(
    work: Callable[[], object], delivery: Delivery, limit: float | None, patience: float
) -> None:
    """Has it done on a thread of its own, which cannot be killed and does not keep a process alive."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[BaseException | None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            contextvars.Context().run(work)
        except BaseException as raised:  # noqa: BLE001  handed to whoever waits
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=run, name="holdfast-event", daemon=True).start()
    try:
        async with asyncio.timeout(limit):
            error = await asyncio.shield(ended)
    except (TimeoutError, asyncio.CancelledError) as cut:
        delivery.told = Stop.TIMEOUT if isinstance(cut, TimeoutError) else Stop.LEASE_LOST
        await asyncio.wait([ended], timeout=patience)
        raise
    if error is not None:
        raise error

"""The thread that keeps leases, with an event loop and a store session of its own.

No handler ever runs here, so a handler that blocks the worker's loop keeps its lease. The janitor and the
candidate for leadership share the thread, for the same reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.engine import surroundings
from holdfast.engine.candidacy import Candidacy
from holdfast.engine.hold import Hold
from holdfast.engine.janitor import Janitor
from holdfast.engine.keeper import Keeper
from holdfast.engine.notices import Notices
from holdfast.engine.telling import tell
from holdfast.model.outcome import Stop
from holdfast.model.report import WorkerReport
from holdfast.model.settings import Settings
from holdfast.store import Session, Store

log = logging.getLogger("holdfast.heartbeat")

SOONEST = 0.5
PATIENCE = 5.0


class Heartbeat:
    """One thread that extends every held lease in time.

    `tell` is called on this thread and must only hand over to the worker's loop. `died` is called on that
    loop when the thread ends though nobody stopped it: without it no lease can be kept. `report` is called on
    this thread, too.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        worker: str,
        notices: Notices,
        holds: Callable[[], Sequence[Hold]],
        tell: Callable[[Hold, Stop], None],
        died: Callable[[], None],
        report: Callable[[], WorkerReport],
    ) -> None:
        self._store = store
        self._settings = settings
        self._worker = worker
        self._notices = notices
        self._holds = holds
        self._tell = tell
        self._died = died
        self._report = report
        self._owner = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._owner.create_future()
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stopping = False
        self._nudged = False

    async def start(self) -> None:
        """Returns once the thread has its session; raises what kept it from getting one."""
        surroundings.start_loop(self._serve, self._over, name="holdfast-heartbeat")
        await self._started

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    async def stop(self) -> None:
        """Ends the thread. One that hangs in the store is left behind: a daemon holds up nothing."""
        self._stopping = True
        if self._loop is not None and self._serving is not None:
            _call(self._loop, self._serving.cancel)
        try:
            async with asyncio.timeout(PATIENCE):
                await self._ended.wait()
        except TimeoutError:
            log.warning("the heartbeat does not end", extra={"fields": {"worker": self._worker}})

    def nudge(self) -> None:
        """Asks for a beat soon, because there is progress to tell.

        From any thread; cheap when already asked.
        """
        if not self._nudged:
            self._nudged = True
            self.look()

    def look(self) -> None:
        """Says that something may be due earlier than it was. From any thread."""
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            _call(loop, wake.set)

    def _over(self, failure: BaseException | None) -> None:
        _call(self._owner, self._ending, failure)

    def _ending(self, failure: BaseException | None) -> None:
        self._ended.set()
        if not self._started.done():
            self._started.set_exception(failure or RuntimeError("the heartbeat ended before it began"))
        elif not self._stopping:
            fields = {"worker": self._worker}
            log.critical("the heartbeat ended", exc_info=failure, extra={"fields": fields})
            self._died()

    async def _serve(self) -> None:
        self._wake = asyncio.Event()
        self._serving = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        session = await self._connect()
        try:
            keeper = Keeper(session, self._settings, self._worker, self._notices, self._holds, self._tell)
            janitor = Janitor(session, self._worker, self._settings, self._notices, keeper.keys)
            _call(self._owner, self._begun)
            chores = [
                asyncio.create_task(janitor.sweep()),
                asyncio.create_task(tell(session.fleet, self._worker, self._settings, self._report)),
            ]
            if self._settings.leader_candidate:
                chores.append(asyncio.create_task(self._stand(session)))
            try:
                await self._beat(keeper, self._wake)
            finally:
                for chore in chores:
                    chore.cancel()
                await asyncio.wait(chores)
        finally:
            await session.close()

    async def _stand(self, session: Session) -> None:
        """Is a candidate for leadership, and fires schedules when it leads."""
        candidacy = Candidacy(session, self._connect, self._worker, self._settings, self._notices)
        try:
            await candidacy.stand()
        finally:
            await candidacy.close()

    async def _connect(self) -> Session:
        return await self._store.connect(self._settings.namespace)

    def _begun(self) -> None:
        if not self._started.done():
            self._started.set_result(None)

    async def _beat(self, keeper: Keeper, wake: asyncio.Event) -> None:
        last = 0.0
        while not self._stopping:
            limit = keeper.next_look()
            if self._nudged and not keeper.is_failing:
                # Progress waits a little, so that a chatty handler costs one beat and not many.
                limit = min(limit, last + SOONEST)
            wake.clear()
            try:
                async with asyncio.timeout(max(0.0, limit - surroundings.now())):
                    await wake.wait()
            except TimeoutError:
                last = surroundings.now()
                self._nudged = False
                keeper.give_up_untrusted()
                await keeper.beat()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        log.debug("the loop has ended")

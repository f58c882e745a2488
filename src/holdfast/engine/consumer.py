"""Tells one group of the events of one topic: in order, each until it is dealt with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from hashlib import blake2b

from msgspec.structs import replace

from holdfast.engine import surroundings
from holdfast.engine.bookmark import Bookmark, Change
from holdfast.engine.candidate import pause_after
from holdfast.engine.failures import one_line
from holdfast.engine.handling import Handling
from holdfast.engine.tracing import relaying
from holdfast.model.errors import LeaseLost, Undeliverable
from holdfast.model.events import EventPage, EventRecord
from holdfast.model.progress import MOST_WAITING, Progress, Subscriber, aggregate_of, lane_of
from holdfast.model.scheduling import Term
from holdfast.model.settings import Settings
from holdfast.model.subscription import Relay, Subscription, check_readable
from holdfast.model.timing import SECOND
from holdfast.store import Session

log = logging.getLogger("holdfast.events")

BATCH = 200
SOONEST = 0.05
PATIENT = 3
"""How often a relay may fail in a row before one who only wants to be done gives it up for now."""

SAVE_SECONDS = 0.05
"""How often the offset is stored, at least, while events are handled: those may come twice after a crash."""


class Consumer:
    """One subscription's part in a worker. Whoever calls holds its lock, and says under which term."""

    def __init__(
        self, subscription: Subscription, session: Session, settings: Settings, handling: Handling
    ) -> None:
        self.subscription = subscription
        self.handling = handling
        self.woken = asyncio.Event()
        self.is_following = False
        self._session = session
        self._settings = settings
        self._notices = handling.notices
        self._is_stopping = False
        self._failed = 0
        self._looked = 0.0

    @property
    def lock(self) -> str:
        """The name of the lock that says who consumes."""
        name = f"holdfast.on:{self.subscription.group}:{self.subscription.topic}"
        return name if len(name) <= 200 else f"holdfast.on:{blake2b(name.encode()).hexdigest()}"

    def stop(self) -> None:
        """Ends after the event that is being handled."""
        self._is_stopping = True
        self.woken.set()

    async def follow(self, term: Term) -> None:
        """Deals with events as they come, until stopped. LeaseLost if the term is over."""
        self.is_following = True
        try:
            bookmark = await self._open(term)
            while not self._is_stopping:
                self.woken.clear()
                if not await self._turn(bookmark):
                    await self._rest(bookmark)
            await self._save(bookmark)
        finally:
            self.is_following = False
            if self._notices:
                self._notices.tell("consumer_stopped", **self.handling.facts)

    async def drain(self, term: Term) -> None:
        """Deals with what is there and due now."""
        self.is_following = True
        try:
            bookmark = await self._open(term)
            # A relay that cannot hand on may not be able to for long.
            while not self._is_stopping and await self._turn(bookmark) and self._failed < PATIENT:
                pass
            await self._save(bookmark)
        finally:
            self.is_following = False

    async def _open(self, term: Term) -> Bookmark:
        subscription = self.subscription
        subscriber = Subscriber(subscription.group, subscription.topic)
        bookmark = Bookmark(self._session.schedules, subscriber, term)
        if not await bookmark.load():
            offset = await self._session.events.last() if subscription.start == "last" else 0
            await bookmark.save(lambda _: Progress(offset=offset))
        else:
            await self._check_log(bookmark)
        return bookmark

    async def _check_log(self, bookmark: Bookmark) -> None:
        """Goes on behind the end of a log that is shorter than the group has come, or not the same."""
        events, offset = self._session.events, bookmark.progress.offset
        page = await events.read(max(0, offset - 1), 1, topic=self.subscription.topic)
        if not _is_same(page, bookmark.progress):
            last = await events.last()
            self.handling.say("the log of events is not the one that was consumed", "events_differ")
            await bookmark.save(lambda progress: replace(progress, offset=min(offset, last), event=None))

    async def _turn(self, bookmark: Bookmark) -> bool:
        """Deals with some of what is there; whether there may be more."""
        relay = self.subscription.relay
        went_on = await (self._go_on(bookmark) if relay is None else self._relay(bookmark, relay))
        return await self._try_again(bookmark) or went_on

    async def _go_on(self, bookmark: Bookmark) -> bool:
        """Deals with what comes next."""
        if len(bookmark.progress.waiting) >= MOST_WAITING:
            return False
        for event in (found := await self._read(bookmark)):
            if lane_of(event) in bookmark.progress.waiting:
                bookmark.passed(event)
            elif not await self.handling.deliver(bookmark, event, 0, _passing(event)):
                return True
            if self._is_stopping:
                return False
            if surroundings.now() - bookmark.saved > SAVE_SECONDS:
                await self._save(bookmark)
            if len(bookmark.progress.waiting) >= MOST_WAITING:
                self.handling.say("too many aggregates wait", "events_stand_still", waiting=MOST_WAITING)
                return True
        return bool(found)

    async def _try_again(self, bookmark: Bookmark) -> bool:
        """Goes on with the lanes whose time has come."""
        lanes = bookmark.progress.due(bookmark.moment())
        for lane in lanes:
            if self._is_stopping:
                return False
            await self._go_on_in(bookmark, lane)
        return bool(lanes)

    async def _go_on_in(self, bookmark: Bookmark, lane: str) -> None:
        """Deals with the head of a lane that waits."""
        waiting = bookmark.progress.waiting[lane]
        if bookmark.is_ahead:
            # What follows in the lane is told from what comes next by the offset.
            await self._save(bookmark)
        found = await self._lane(lane, waiting.position)
        events = [event for event in found if event.position <= bookmark.progress.offset]
        following = next((event for event in events if event.position > waiting.position), None)

        def change(progress: Progress) -> Progress:
            return progress.went_on(lane, following, bookmark.told_at)

        if waiting.skip or not events or events[0].position != waiting.position:
            await bookmark.save(change)
        else:
            await self.handling.deliver(bookmark, events[0], waiting.failures, change)

    async def _lane(self, lane: str, position: int) -> Sequence[EventRecord]:
        """The head of the lane and what follows it, if anything does."""
        events, topic, aggregate = self._session.events, self.subscription.topic, aggregate_of(lane)
        if aggregate is None:
            heads = (await events.read(position - 1, 1, topic=topic)).records
            return [event for event in heads if lane_of(event) == lane]
        found: list[EventRecord] = []
        after, last = position - 1, await events.last()
        while len(found) < 2 and after < last:
            page = await events.read(after, 2, topic=topic, aggregate=aggregate)
            found += page.records
            after = page.upto
        return found

    async def _relay(self, bookmark: Bookmark, relay: Relay) -> bool:
        """Hands a batch on; if that fails, the same again after a while."""
        found = await self._read(bookmark)
        events = [event for event in found if lane_of(event) not in bookmark.progress.waiting]
        began = surroundings.now()
        try:
            if events:
                check_readable(events)
                with relaying(self._notices, self.subscription.group, events):
                    await relay(events)
        except Exception as error:  # noqa: BLE001  whatever it is, nothing was passed
            refused = error.event_id if isinstance(error, Undeliverable) else None
            for event in events:
                if event.id == refused:
                    await self.handling.set_aside(bookmark, event, 0, error, passes=False)
                    return True
            self._failed += 1
            pause = pause_after(self._failed)
            facts = {"error": one_line(f"{type(error).__name__}: {error}"), "pause": round(pause, 3)}
            self.handling.say("events not relayed", "events_not_relayed", **facts)
            self.woken.clear()
            await self._wait(pause)
            return True
        self._failed = 0
        if found:
            await bookmark.save(_passing(found[-1]))
            self.handling.count(found[-1], surroundings.now() - began, len(events))
            if self._notices:
                self._notices.tell("events_relayed", **self.handling.facts, count=len(events))
        return bool(found)

    async def _read(self, bookmark: Bookmark) -> list[EventRecord]:
        """What comes next; LeaseLost if the log is another one than it was."""
        self._looked = surroundings.now()
        events, topic, progress = self._session.events, self.subscription.topic, bookmark.progress
        after = max(0, progress.offset - 1)
        while True:
            page = await events.read(after, BATCH, topic=topic)
            if not _is_same(page, progress):
                raise LeaseLost(f"event {progress.event} is gone: the store has lost its last writes")
            found = [event for event in page.records if event.position > progress.offset]
            if found or page.upto <= after:
                break
            after = page.upto
        if found and self._notices:
            last = found[-1].position
            self.handling.seen = last if len(page.records) < BATCH else await events.last()
        return found

    async def _save(self, bookmark: Bookmark) -> None:
        if bookmark.is_ahead:
            await bookmark.save()

    async def _rest(self, bookmark: Bookmark) -> None:
        """Until something may have happened, or a lane is to be tried again."""
        await self._save(bookmark)
        pause = self._settings.poll_seconds
        retry_at = bookmark.progress.next_retry()
        if retry_at is not None:
            pause = min(pause, max(0.0, (retry_at - bookmark.moment()) / SECOND))
        began = surroundings.now()
        await self._wait(pause)
        if surroundings.now() - began < pause:
            # Most wake-ups are not about events, and may come often.
            await asyncio.sleep(max(0.0, self._looked + SOONEST - surroundings.now()))
        if bookmark.progress.waiting:
            # An operator may have written to them.
            await bookmark.load()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.woken.wait()
        except TimeoutError:
            return


def _passing(event: EventRecord) -> Change:
    return lambda progress: progress.passed(event)


def _is_same(page: EventPage, progress: Progress) -> bool:
    """Whether the log is the one that was consumed, as far as a page from the offset on shows."""
    if page.upto < progress.offset:
        return False
    at = next((event.id for event in page.records if event.position == progress.offset), None)
    return None in (at, progress.event) or at == progress.event

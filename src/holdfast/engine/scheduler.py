"""Fires what is due: reads schedules, decides, and writes jobs and new state together, under the term."""

from __future__ import annotations

import asyncio
import logging

import msgspec
from msgspec.structs import replace

from holdfast.engine import surroundings
from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import Tracer, unharmed
from holdfast.model import schedule as rules
from holdfast.model.errors import LeaseLost
from holdfast.model.headers import carrying
from holdfast.model.plan import decode, left_out
from holdfast.model.progress import is_schedule
from holdfast.model.records import Verdict
from holdfast.model.scheduling import ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.model.timing import SECOND
from holdfast.store import ScheduleStore

log = logging.getLogger("holdfast.scheduler")

BATCH = 250
SOONEST = 0.2
"""Wake-ups may come often, and most are not about schedules."""

SELDOM = 10
"""So many polls are one as long as there are no schedules: whoever puts the first one wakes the leader."""

SELDOM_SECONDS = 10.0
"""But not for longer than that, or than one poll: on some stores nobody can be woken."""

ASIDE = 60 * SECOND
"""How long one that this version cannot read is left alone, in case another version can."""

LONGEST_THOUGHT = 0.05
"""For how many seconds it decides without a pause: leases are kept on the same thread."""

LARGEST = 4 << 20
"""About how many bytes are sent in one write; BESIDE is what a job or event has beside its payload."""

BESIDE = 4_096


class Scheduler:
    """The leader's duty. `woken` is set whenever something may be due earlier than it was."""

    def __init__(self, schedules: ScheduleStore, poll_seconds: float, notices: Notices) -> None:
        self._schedules = schedules
        self._poll = poll_seconds
        self._notices = notices
        self.woken = asyncio.Event()

    async def run(self, term: Term) -> None:
        """Fires in time, again and again, until cancelled. LeaseLost if the term is over."""
        while True:
            self.woken.clear()
            began = surroundings.now()
            pause = await self.turn(term)
            await self._rest(began, pause)

    async def turn(self, term: Term) -> float:
        """Fires what is due now; after how many seconds to look again at the latest."""
        told = await self._schedules.due(BATCH)
        writes = self._decided(told)
        verdicts = await self._schedules.write(writes, term) if writes else []
        if verdicts is None:
            raise LeaseLost(f"the term {term.token} is over: another leads, or the lease ran out")
        self._tell(told, writes, verdicts)
        if len(writes) == BATCH or len(writes) < len(told.records):
            return 0.0
        if not writes and told.next_look is None and not await self._has_any():
            return max(self._poll, min(self._poll * SELDOM, SELDOM_SECONDS))
        looks = [write.look_at - told.now for write in writes if write.look_at is not None]
        if told.next_look is not None:
            looks.append(told.next_look)
        pauses = [self._poll, *(max(0, look) / SECOND for look in looks)]
        if Verdict.REFUSED in verdicts:
            pauses.append(SOONEST)
        return min(pauses)

    async def _has_any(self) -> bool:
        """Whether there are schedules at all."""
        first = (await self._schedules.list("", 1)).records
        return bool(first) and is_schedule(first[0].name)

    def _decided(self, told: Schedules) -> list[ScheduleWrite]:
        """What to write of those that are due: the first of them, if all are too much for once."""
        began = surroundings.now()
        writes: list[ScheduleWrite] = []
        size = 0
        for record in told.records:
            write = self._written(record, told.now)
            if self._notices.tracer is not None and (write.jobs or write.events):
                write = _traced(self._notices.tracer, write)
            writes.append(write)
            size += len(write.definition) + sum(BESIDE + len(job.payload) for job in write.jobs)
            size += sum(BESIDE + len(event.data) for event in write.events)
            if size >= LARGEST or surroundings.now() - began > LONGEST_THOUGHT:
                break
        return writes

    def _written(self, record: ScheduleRecord, moment: int) -> ScheduleWrite:
        """The schedule as it shall be after this moment, with what it fires."""
        try:
            return self._after(record, moment)
        except msgspec.MsgspecError as error:
            fields = {"schedule": record.name, "error": str(error)}
            log.warning("a schedule cannot be read; it is left alone for a while", extra={"fields": fields})
        except Exception:
            # Whatever is wrong with one, the others are fired.
            fields = {"schedule": record.name}
            log.exception(
                "a schedule cannot be fired; it is left alone for a while", extra={"fields": fields}
            )
        return _aside(record, moment)

    def _after(self, record: ScheduleRecord, moment: int) -> ScheduleWrite:
        plan, state = decode(record)
        run = record.run
        is_live = run is not None and run.live
        if state.waiting and not is_live:
            started, finished = (None, None) if run is None else (run.started, run.finished)
            state = rules.run_ended(
                plan.schedule, state, started=started, ended=moment if finished is None else finished
            )
        most = max(1, LARGEST // (BESIDE + plan.size))
        decision = rules.decide(plan.schedule, state, moment, live=is_live, most=most)
        return plan.write(decision.state, record, new_id(), decision)

    def _tell(self, told: Schedules, writes: list[ScheduleWrite], verdicts: list[Verdict]) -> None:
        for record, write, verdict in zip(told.records, writes, verdicts, strict=False):
            if verdict is not Verdict.ACCEPTED:
                continue
            self._tell_left_out(record, write)
            if not write.jobs and not write.events:
                continue
            late = 0 if record.look_at is None else told.now - record.look_at
            fields = {
                "schedule": write.name,
                "jobs": len(write.jobs),
                "events": len(write.events),
                "late": late / SECOND,
            }
            log.debug("schedule fired", extra={"fields": fields})
            if self._notices:
                self._notices.tell("schedule_fired", **fields)
                for event in write.events:
                    self._notices.tell("events_appended", topic=event.topic, count=1)

    def _tell_left_out(self, record: ScheduleRecord, write: ScheduleWrite) -> None:
        """Tells of due times for which nothing was fired."""
        if self._notices and record.state != write.state:
            counts = zip(("missed", "skipped"), left_out(record.state), left_out(write.state), strict=True)
            for what, before, after in counts:
                if after > before:
                    self._notices.tell(f"schedule_{what}", schedule=write.name, count=after - before)

    async def _rest(self, began: float, pause: float) -> None:
        if pause <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(pause):
                await self.woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(0.0, min(pause, began + SOONEST - surroundings.now())))


def _traced(tracer: Tracer, write: ScheduleWrite) -> ScheduleWrite:
    with unharmed():
        carrier = tracer.firing(write.name, write.jobs, write.events)
        jobs = tuple(carrying(job, carrier) for job in write.jobs)
        events = tuple(carrying(event, carrier) for event in write.events)
        return replace(write, jobs=jobs, events=events)
    return write


def _aside(record: ScheduleRecord, moment: int) -> ScheduleWrite:
    return ScheduleWrite(
        name=record.name,
        version=record.version,
        mark=new_id(),
        after=record.mark,
        definition=record.definition,
        state=record.state,
        look_at=moment + ASIDE,
        job=record.job,
        waits=False,
    )

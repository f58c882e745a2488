"""The answer to a call about events is lost: its repeat gives the first answer, and nothing is told twice."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import OutcomeUnknown, StoreUnavailable
from holdfast.store import Session
from holdfast.testing.conformance.case import new_job
from holdfast.testing.conformance.events import new_event
from holdfast.testing.conformance.schedules import write
from tests.postgres.fault_support import Rig, moving, rig
from tests.postgres.test_fault_replies import POINTS

Call = Callable[[Session], Awaitable[Any]]


async def told(rig: Rig) -> list[tuple[str, int, int | None]]:
    page = await rig.plain.events.read(0, 100)
    return [(event.id, event.position, event.version) for event in page.records]


async def calls(rig: Rig) -> dict[str, tuple[str, Call]]:
    """Calls that append one event each, and what each is sent as."""
    events = [new_event(aggregate="a") for _ in range(4)]
    job, plan = new_job(), write(events=(events[3],))
    tick = moving(7, *await rig.claim(), events=(events[2],))
    return {
        "append": ("append_v1", lambda at: at.events.append([events[0]])),
        "append with a job": ("add_v1", lambda at: at.events.append([events[1]], [job])),
        "tick": ("tick_events_v1", lambda at: at.jobs.tick(tick)),
        "schedule": ("schedule_write_v2", lambda at: at.schedules.write([plan])),
    }


@pytest.mark.parametrize("options", ["", "&prepared=off"])
async def test_after_a_lost_answer_a_repeat_tells_nothing_more(postgres_url: str, options: str) -> None:
    for point in POINTS:
        async with rig(postgres_url, options) as here:
            for count, (text, call) in enumerate((await calls(here)).values(), start=1):
                loss = here.proxy.lose("^COMMIT" if options else text, point)
                with pytest.raises(OutcomeUnknown):
                    await call(here.bare)
                assert loss.met.is_set(), text
                assert len(await told(here)) == (count if point == "after" else count - 1), text
                await call(here.bare)
                stored = await told(here)
                assert [(place, version) for _, place, version in stored] == [
                    (place, place) for place in range(1, count + 1)
                ]
                await call(here.bare)
                assert await told(here) == stored, text


async def test_positions_that_a_reader_was_not_told_of_are_given_or_are_not(postgres_url: str) -> None:
    for point in POINTS:
        async with rig(postgres_url) as here:
            first, second = new_event(), new_event()
            await here.plain.events.append([first])
            here.proxy.lose("sequence_v1", point)
            with pytest.raises(StoreUnavailable):
                await here.bare.events.read(0, 10)
            await here.plain.events.append([second])
            page = await here.bare.events.read(0, 10)
            assert [event.id for event in page.records] == [first.id, second.id]

"""Every operation on events is sent again, and what was appended without an answer stands there once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.events import NewEvent
from holdfast.store import EventStore
from holdfast.stores.resilient.events import ResilientEvents
from tests.resilient.rig import DOWN, LOST, Rig, job

PLACED = NewEvent(id="e", topic="orders", type="placed", data=b"1", aggregate="a")

OPERATIONS: dict[str, Callable[[ResilientEvents], Awaitable[Any]]] = {
    "append": lambda events: events.append([PLACED]),
    "read": lambda events: events.read(0, 9, topic="orders", aggregate="a"),
    "last": lambda events: events.last(),
    "prune": lambda events: events.prune(0, {}, 9),
}


def test_every_operation_of_the_seam_is_listed_here() -> None:
    assert {name for name in vars(EventStore) if not name.startswith("_")} == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("fault", [{"before": DOWN}, {"after": LOST}], ids=["not done", "unanswered"])
async def test_an_operation_is_sent_again(name: str, fault: dict[str, Exception]) -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    rig.faults.plan(name, times=3, **fault)
    await OPERATIONS[name](session.events)
    assert rig.faults.count(name) == 4
    assert not rig.breaker.is_failing


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_fails_at_once_while_the_circuit_is_open(name: str) -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    await rig.open_circuit(session)
    pauses = len(rig.time.pauses)
    with pytest.raises(StoreUnavailable):
        await OPERATIONS[name](session.events)
    assert (rig.faults.count(name), len(rig.time.pauses)) == (0, pauses)


async def test_events_and_jobs_whose_answer_was_lost_stand_there_once() -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    rig.faults.plan("append", after=LOST, times=2)
    [added] = await session.events.append([PLACED], [job("a")])
    assert added.record.id == "a"
    assert rig.faults.count("append") == 3
    [event] = (await session.events.read(0, 9)).records
    assert (event.id, event.position, event.version) == ("e", 1, 1)
    assert sum(count.count for count in await session.jobs.count()) == 1


async def test_jobs_that_are_sent_again_with_events_may_be_stored_already() -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    seen: list[bool] = []
    inner = session.events._events
    plain: Any = inner.append

    async def append(events: Any, jobs: Any) -> Any:
        seen.extend(each.fresh for each in jobs)
        return await plain(events, jobs)

    rig.faults.plan("append", after=LOST)
    session.events._events = type("Noting", (), {"append": staticmethod(append)})()
    await session.events.append([PLACED], [job("a", fresh=True)])
    assert seen == [True, False]


async def test_an_append_that_never_gets_an_answer_tells_that_its_outcome_is_unknown() -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    rig.faults.plan("append", after=LOST, times=float("inf"))
    with pytest.raises(OutcomeUnknown):
        await session.events.append([PLACED])


async def test_nothing_to_append_reaches_no_store() -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    rig.faults.down = DOWN
    assert await session.events.append([]) == []
    assert rig.faults.count("append") == 0

"""Every operation on schedules is sent again, and a write whose answer was lost fires once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.model.errors import StoreUnavailable
from holdfast.model.records import LockWish, Verdict
from holdfast.model.scheduling import ScheduleWrite, Term
from holdfast.model.timing import SECOND
from holdfast.store import ScheduleStore
from holdfast.stores.resilient.schedules import ResilientSchedules
from tests.resilient.rig import DOWN, LOST, Rig, job


def write(version: int = 0, **fields: Any) -> ScheduleWrite:
    told: dict[str, Any] = {"mark": f"m{version}", "definition": b"", "state": b"", "look_at": 0}
    return ScheduleWrite(name="nightly", version=version, **{**told, **fields})


OPERATIONS: dict[str, Callable[[ResilientSchedules], Awaitable[Any]]] = {
    "write": lambda schedules: schedules.write([write()]),
    "remove": lambda schedules: schedules.remove("nightly"),
    "get": lambda schedules: schedules.get(["nightly"]),
    "list": lambda schedules: schedules.list("", 9),
    "due": lambda schedules: schedules.due(9),
}


async def schedules_of(rig: Rig) -> ResilientSchedules:
    return (await rig.store.connect("test")).schedules


def test_every_operation_of_the_seam_is_listed_here() -> None:
    assert {name for name in vars(ScheduleStore) if not name.startswith("_")} == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_that_was_not_done_is_sent_again(name: str) -> None:
    rig = Rig()
    schedules = await schedules_of(rig)
    rig.faults.plan(name, before=DOWN, times=3)
    await OPERATIONS[name](schedules)
    assert rig.faults.count(name) == 4
    assert not rig.breaker.is_failing


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_fails_at_once_while_the_circuit_is_open(name: str) -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    await rig.open_circuit(session)
    pauses = len(rig.time.pauses)
    with pytest.raises(StoreUnavailable):
        await OPERATIONS[name](session.schedules)
    assert (rig.faults.count(name) if name != "get" else 0, len(rig.time.pauses)) == (0, pauses)


async def test_a_firing_whose_answer_was_lost_is_accepted_and_fires_once() -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    rig.faults.plan("write", after=LOST, times=2)
    fired = write(jobs=(job("a"),), job="a")
    assert await session.schedules.write([fired]) == [Verdict.ACCEPTED]
    assert rig.faults.count("write") == 3
    [stored] = (await session.schedules.get(["nightly"])).records
    assert (stored.version, stored.job) == (1, "a")
    assert sum(count.count for count in await session.jobs.count()) == 1


async def test_the_term_is_sent_with_every_try() -> None:
    rig = Rig()
    session = await rig.store.connect("test")
    granted = await session.locks.acquire(LockWish(name="leader", owner="ann", ttl=60 * SECOND))
    assert granted.token is not None
    term = Term(lock="leader", owner="ann", token=granted.token)
    rig.faults.plan("write", before=DOWN)
    assert await session.schedules.write([write()], term) == [Verdict.ACCEPTED]
    await session.locks.release("leader", "ann", granted.token)
    rig.faults.plan("write", before=DOWN)
    assert await session.schedules.write([write(1)], term) is None

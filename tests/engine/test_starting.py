"""How a worker starts: it waits for a store that is away, and for nothing else."""

import asyncio
import logging

import pytest

from holdfast.model.errors import (
    ConfigurationError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from holdfast.model.lifecycle import State
from tests.engine.rig import Rig


async def good() -> None: ...


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if each.startswith(("store ", "worker ", "cannot "))]


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), OutcomeUnknown("no answer")], ids=repr)
@pytest.mark.parametrize(
    ("call", "session"), [("connect", "pump"), ("register", "pump"), ("connect", "heartbeat")]
)
async def test_a_store_that_is_away_is_waited_for_and_that_is_said_once(
    call: str, session: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    rig = Rig()
    job = await rig.add(rig.task(good))
    rig.faults.plan(call, session=session, before=error, times=3)
    assert await rig.drain() == 0
    assert await rig.state(job) is State.SUCCESS
    assert len(rig.seen.of("start_failed", error=error)) == 3
    assert said(caplog) == [
        "store unreachable",
        "store reachable again",
        "worker started",
        "worker stopped",
    ]
    assert await (await rig.memory.connect("default")).fleet.workers() == []


async def test_a_registration_without_an_answer_is_tried_again() -> None:
    rig = Rig(lease_seconds=1)
    job = await rig.add(rig.task(good))
    rig.faults.plan("register", hangs=True)
    assert await rig.drain() == 0
    assert await rig.state(job) is State.SUCCESS


async def test_a_worker_that_waits_for_the_store_can_be_stopped() -> None:
    rig = Rig()
    rig.faults.down = StoreUnavailable("gone")
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    await rig.seen.wait("start_failed", count=3)
    worker.stop()
    assert await running == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("session", ["pump", "heartbeat"])
@pytest.mark.parametrize(
    "error",
    [SchemaMismatch("old"), ConfigurationError("wrong"), StoreError("damaged"), KeyError("a bug")],
    ids=repr,
)
async def test_what_will_not_pass_ends_the_worker_at_once(error: Exception, session: str) -> None:
    rig = Rig()
    rig.faults.plan("connect", session=session, before=error)
    with pytest.raises(type(error)):
        await rig.worker().run()
    assert rig.seen.all == []
    assert await (await rig.memory.connect("default")).fleet.workers() == []


async def test_hooks_run_once_however_often_the_opening_had_to_be_tried() -> None:
    order: list[str] = []
    errors = [StoreUnavailable("gone"), StoreUnavailable("gone")]

    class Opening:
        async def __aenter__(self) -> None:
            if errors:
                raise errors.pop()
            order.append("open")

        async def __aexit__(self, *_: object) -> None:
            order.append("close")

    async def start() -> None:
        order.append("startup")

    async def end() -> None:
        order.append("shutdown")

    rig = Rig()
    worker = rig.worker(opening=Opening(), on_startup=start, on_shutdown=end)
    assert await worker.run(until_idle=True) == 0
    assert order == ["open", "startup", "shutdown", "close"]


async def test_a_hook_that_cannot_reach_the_store_is_not_repeated() -> None:
    async def start() -> None:
        raise StoreUnavailable("gone")

    rig = Rig()
    with pytest.raises(StoreUnavailable):
        await rig.worker(on_startup=start).run()
    assert rig.seen.all == []

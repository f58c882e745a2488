"""Whether a worker is well, seen from any thread."""

import asyncio
import threading
from collections.abc import Callable

from holdfast.model.errors import StoreUnavailable
from holdfast.model.health import Health
from tests.engine.rig import Gate, Rig
from tests.servers.waiting import wait_until

PATIENCE = 10.0


def until(health: Callable[[], Health], wanted: str) -> Health:
    """The health that has such a reason, once it has."""
    seen: list[Health] = []

    def is_so() -> bool:
        seen.append(health())
        return any(reason.startswith(wanted) for reason in seen[-1].reasons)

    wait_until(is_so, wanted)
    return seen[-1]


async def test_a_worker_is_ready_while_it_serves_and_not_when_it_drains() -> None:
    rig = Rig()
    gate = Gate()
    worker = rig.worker()
    assert worker.health() == Health(True, False, ("stopped",))
    await rig.add(rig.task(gate.pass_blocking, name="slow"))
    async with worker:
        await gate.wait_entered()
        assert worker.health() == Health(True, True)
        worker.stop()
        assert worker.health() == Health(True, False, ("draining",))
        gate.open()
    assert worker.health() == Health(True, False, ("stopped",))


async def test_a_store_that_is_away_too_long_is_told() -> None:
    rig = Rig(health_limit_seconds=0.1)
    worker = rig.worker()
    async with worker:
        rig.faults.down = StoreUnavailable("gone")
        found = await asyncio.to_thread(until, worker.health, "the store has not answered")
        assert (found.live, found.ready) == (True, False)
        rig.faults.down = None
        await rig.seen.wait("store_back")
        assert worker.health() == Health(True, True)


async def test_a_store_that_hangs_is_told_before_the_call_is_given_up() -> None:
    rig = Rig(health_limit_seconds=0.1, call_timeout_seconds=10, lease_seconds=120)
    worker = rig.worker()
    hanging = asyncio.Event()
    async with worker:
        rig.faults.plan("tick", gate=hanging)
        found = await asyncio.to_thread(until, worker.health, "the store has not answered")
        assert (found.live, found.ready) == (True, False)
        hanging.set()
        await asyncio.to_thread(wait_until, lambda: worker.health() == Health(True, True), "it is well again")


async def test_a_store_that_is_away_from_the_beginning_is_told() -> None:
    rig = Rig(health_limit_seconds=0.1)
    rig.faults.down = StoreUnavailable("gone")
    worker = rig.worker()
    running = asyncio.create_task(worker.run())
    found = await asyncio.to_thread(until, worker.health, "the store has not answered")
    assert found.reasons[-1] == "starting"
    assert found.live
    worker.stop()
    await running


async def test_a_blocked_event_loop_is_seen_from_another_thread() -> None:
    rig = Rig(health_limit_seconds=0.1)
    worker = rig.worker()
    seen: list[Health] = []
    free = threading.Event()

    async def block() -> None:
        def watch() -> None:
            seen.append(until(worker.health, "nothing could be claimed"))
            free.set()

        threading.Thread(target=watch).start()
        free.wait(PATIENCE)

    job = await rig.add(rig.task(block))
    async with worker:
        await rig.seen.wait("settled", job=job)
        assert worker.health().ready, "the loop goes on"
    assert [(found.live, found.ready) for found in seen] == [(False, False)]


async def test_a_worker_whose_slots_are_all_stuck_is_not_live() -> None:
    rig = Rig(concurrency=1)
    gate = Gate()
    worker = rig.worker()
    seen: list[Health] = []
    rig.notices.listen(lambda notice: seen.append(worker.health()) if notice.kind == "stuck" else None)
    await rig.add(rig.task(gate.pass_blocking, name="deaf", timeout=0.05))
    await worker.run()
    assert seen[0].reasons[0] == "all slots (1) are stuck"
    assert not seen[0].live
    assert worker.health() == Health(False, False, ("failed",))
    gate.open()

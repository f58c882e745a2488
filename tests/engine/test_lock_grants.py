"""What one holding of a lock is good for, and how its loss is told."""

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from holdfast.engine import surroundings
from holdfast.engine.lock_grant import Grant
from holdfast.engine.lock_lease import LockLease
from holdfast.engine.locks import Locks
from holdfast.model.errors import InvalidLock, LockLost
from holdfast.model.records import LockHold
from holdfast.model.timing import SECOND
from tests.chaos.waiting import until
from tests.engine.lock_rig import NAME, PATIENCE, reached, rig


def is_slow(holds: list[LockHold]) -> bool:
    return any(hold.name == "slow" for hold in holds)


async def acquire_slow(locks: Locks) -> None:
    """Takes a long lock whose first renewal is due now, and is waited for for ten seconds."""
    grant = await locks.acquire("slow", ttl=60)
    grant._lease.beat_due = surroundings.now()


async def test_a_grant_is_for_one_block() -> None:
    async with rig() as (_, locks):
        grant = await locks.try_lock(NAME)
        assert grant is not None
        async with grant:
            with pytest.raises(LockLost, match="for one block: take the lock again"):
                async with grant:
                    pytest.fail("leaving it would give the lock back in the midst of the outer one")
        async with locks.lock(NAME) as other:
            with pytest.raises(LockLost):
                async with grant:
                    pytest.fail("another holds the lock")
            assert not other.lost


async def test_a_grant_that_was_given_back_by_hand_cannot_be_entered() -> None:
    async with rig() as (_, locks):
        grant = await locks.acquire(NAME)
        await grant.release()
        with pytest.raises(LockLost, match="has been given back"):
            async with grant:
                pytest.fail("nobody holds the lock")


async def test_a_renewal_that_hangs_holds_up_no_other() -> None:
    async with rig() as (made, locks):
        slow = made.faults.plan("renew", when=is_slow, hangs=True, times=float("inf"))
        async with locks.lock("quick", ttl=3) as quick:
            await acquire_slow(locks)
            await reached(slow.reached)
            others = made.faults.plan("renew", times=2)
            await until(lambda: others.times == 0, "the quick one is renewed all the same")
            assert not quick.lost


async def test_a_body_is_cut_off_while_the_renewal_of_another_lock_hangs() -> None:
    async with rig() as (made, locks):
        slow = made.faults.plan("renew", when=is_slow, hangs=True, times=float("inf"))
        await acquire_slow(locks)
        await reached(slow.reached)

        async def hold() -> None:
            async with locks.lock("quick", ttl=0.3):
                made.clock.advance(1)
                await asyncio.sleep(PATIENCE / 2)

        began = time.monotonic()
        with pytest.raises(LockLost):
            await hold()
        assert time.monotonic() - began < 5, "not when the patience with the slow one ends"


async def test_a_body_is_cut_off_soon_after_the_machine_woke_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time has passed by the clock that goes on during sleep, and none by that of timers."""
    slept = 0.0
    now = surroundings.now
    monkeypatch.setattr(surroundings, "now", lambda: now() + slept)
    async with rig() as (_, locks):

        async def hold() -> None:
            nonlocal slept
            async with locks.lock(NAME, ttl=60):
                await asyncio.sleep(0.1)  # the renewer has set its timer
                slept = 3600.0
                await asyncio.sleep(PATIENCE / 2)

        began = time.monotonic()
        with pytest.raises(LockLost):
            await hold()
        assert time.monotonic() - began < PATIENCE / 4


async def test_a_loss_that_the_holder_notices_first_is_told_once_and_is_no_release() -> None:
    async with rig() as (made, locks):
        go_on = threading.Event()

        def is_let_go(_: list[LockHold]) -> bool:
            return go_on.wait(PATIENCE)

        made.faults.plan("renew", when=is_let_go)

        async def hold() -> Grant:
            async with locks.lock(NAME, ttl=0.3) as grant:
                time.sleep(0.4)  # noqa: ASYNC251  # blocks on purpose: its renewer is stuck too
                return grant

        with pytest.raises(LockLost):
            await hold()
        go_on.set()
        await made.renewer.stop()
        assert made.kinds() == ["lock_acquired", "lock_lost"]


async def test_a_lost_lock_is_told_once_however_often_it_is_released() -> None:
    async with rig() as (made, locks):
        grant = await locks.acquire(NAME, ttl=0.3)
        made.clock.advance(1)
        assert await asyncio.to_thread(grant.lost.wait, PATIENCE)
        for _ in range(3):
            await grant.release()
        assert made.faults.count("release") == 1
        await made.renewer.stop()
        assert made.kinds() == ["lock_acquired", "lock_lost"]


async def test_a_grant_that_came_too_late_for_one_who_does_not_wait_is_given_back() -> None:
    async with rig() as (made, locks):
        gate = asyncio.Event()
        plan = made.faults.plan("acquire", gate=gate)
        asking = asyncio.create_task(locks.try_lock(NAME, ttl=0.2))
        await reached(plan.reached)
        asyncio.get_running_loop().call_later(0.3, gate.set)
        assert await asking is None
        other = await locks.try_lock(NAME)
        assert other is not None


def test_what_was_once_seen_as_lost_stays_lost_though_a_renewal_comes_after_all() -> None:
    lease = LockLease(NAME, "ann", 1, SECOND, sent=surroundings.now() - 2)
    assert lease.lost
    lease.extended(surroundings.now())
    assert lease.lost


def test_who_waits_for_the_loss_of_a_lock_that_is_over_need_not_be_told() -> None:
    lease = LockLease(NAME, "ann", 1, SECOND, sent=surroundings.now() - 2)
    began = time.monotonic()
    assert lease.lost.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize(
    "ttl", [-1, 0, float("inf"), float("nan"), 1e300, "30", None, True, timedelta(days=2)]
)
async def test_whatever_is_wrong_with_a_ttl_its_bounds_are_told(ttl: Any) -> None:
    async with rig() as (_, locks):
        with pytest.raises(InvalidLock, match=r"^ttl: .* is not between 0\.1 and 86400 seconds"):
            await locks.acquire(NAME, ttl)

"""How a lock is kept, how it is lost, and how the loss is told."""

import asyncio
import logging
import time

import pytest

from holdfast.engine.locks import Locks
from holdfast.model.errors import (
    LockLost,
    OutcomeUnknown,
    StoreUnavailable,
)
from tests.chaos.waiting import until
from tests.engine.lock_rig import NAME, PATIENCE, is_free, reached, rig

DOWN = StoreUnavailable("connection refused")
UNKNOWN = OutcomeUnknown("the answer was lost")


async def for_ever() -> None:
    await asyncio.sleep(PATIENCE / 2)
    raise AssertionError("nobody has cut it off")


async def holding_task(locks: Locks) -> asyncio.Task[None]:
    """A task that holds the lock, and would for ever."""
    entered = asyncio.Event()

    async def hold() -> None:
        async with locks.lock(NAME):
            entered.set()
            await for_ever()

    task = asyncio.create_task(hold())
    await entered.wait()
    return task


async def test_a_body_that_blocks_its_event_loop_keeps_its_lock() -> None:
    async with rig() as (made, locks), locks.lock(NAME, ttl=3) as grant:
        for renewals in (1, 2):
            while made.faults.count("renew") < renewals and not grant.lost:
                time.sleep(0.01)  # noqa: ASYNC251  # blocks on purpose: its event loop can do nothing
            made.clock.advance(2.5)
        assert not grant.lost
        assert not await is_free(locks)


async def test_many_locks_are_renewed_by_one_thread_in_few_calls() -> None:
    async with rig() as (made, locks):
        plan = made.faults.plan("renew", when=lambda holds: len(holds) == 50, times=2)
        grants = [await locks.acquire(f"lock-{number}", ttl=3) for number in range(50)]
        await until(lambda: plan.times == 0, "all are renewed together")
        assert made.faults.count("renew") < 12
        assert not any(grant.lost for grant in grants)


async def test_a_lock_that_the_store_has_given_away_cancels_the_body() -> None:
    async with rig() as (made, locks):
        other = await made.locks()
        grant = await locks.acquire(NAME, ttl=0.3)
        made.clock.advance(1)
        taken = await other.acquire(NAME)
        with pytest.raises(LockLost, match="invoice:42") as raised:
            async with grant:
                await for_ever()
        assert isinstance(raised.value.__cause__, asyncio.CancelledError)
        assert grant.lost
        assert grant.lost.is_set()
        assert grant.lost.wait(0)
        assert not taken.lost
        assert not await is_free(other), "the former holder has not freed it"
        assert "lock_lost" in made.kinds()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_body_that_swallows_the_cancellation_still_ends_with_the_loss() -> None:
    async with rig() as (made, locks):
        went_on: list[str] = []

        async def hold() -> None:
            async with locks.lock(NAME, ttl=0.3):
                made.clock.advance(1)
                try:
                    await for_ever()
                except asyncio.CancelledError:
                    went_on.append("yes")

        with pytest.raises(LockLost):
            await hold()
        assert went_on


async def test_what_the_body_raises_itself_counts_for_more_than_the_loss() -> None:
    async with rig() as (made, locks):

        async def hold() -> None:
            async with locks.lock(NAME, ttl=0.3):
                made.clock.advance(1)
                try:
                    await for_ever()
                finally:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await hold()


async def test_a_cancellation_from_outside_stays_one() -> None:
    async with rig() as (made, locks):
        task = await holding_task(locks)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await is_free(locks)
        assert "lock_lost" not in made.kinds()


async def test_a_timeout_around_the_block_stays_one() -> None:
    async with rig() as (_, locks):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), locks.lock(NAME):
                await for_ever()
        assert await is_free(locks)


@pytest.mark.parametrize("fault", [{"before": DOWN}, {"after": UNKNOWN}, {"hangs": True}])
async def test_a_store_that_cannot_be_reached_costs_the_lock_before_its_end(fault: dict[str, object]) -> None:
    async with rig() as (made, locks):
        made.faults.plan("renew", times=float("inf"), **fault)
        with pytest.raises(LockLost):
            async with locks.lock(NAME, ttl=0.3) as grant:
                await for_ever()
        assert grant.lost


async def test_one_failed_renewal_costs_nothing() -> None:
    async with rig() as (made, locks):
        made.faults.plan("renew", before=DOWN)
        second = made.faults.plan("renew")
        third = made.faults.plan("renew")
        async with locks.lock(NAME, ttl=3) as grant:
            await reached(second.reached)
            await reached(third.reached)
            assert not grant.lost


async def test_a_release_that_the_store_does_not_hear_ends_with_the_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with rig() as (made, locks):
        with caplog.at_level(logging.WARNING):
            async with locks.lock(NAME, ttl=30):
                made.faults.plan("release", before=DOWN)
        assert "lock not released; it expires" in caplog.messages
        assert not await is_free(locks)
        made.clock.advance(30)
        assert await is_free(locks)


async def test_what_is_held_when_the_renewer_ends_is_lost() -> None:
    async with rig() as (made, locks):
        holding = await holding_task(locks)
        await made.renewer.stop()
        with pytest.raises(LockLost):
            await holding
        async with locks.lock("another") as grant:
            assert not grant.lost, "it begins anew"


async def test_a_lost_grant_cannot_be_entered() -> None:
    async with rig() as (made, locks):
        grant = await locks.try_lock(NAME, ttl=0.3)
        assert grant is not None
        made.clock.advance(1)
        assert await asyncio.to_thread(grant.lost.wait, 20)
        with pytest.raises(LockLost):
            async with grant:
                pytest.fail("not reached")

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest

from holdfast.engine.lock_lease import LockLease
from holdfast.engine.locks import Locks
from holdfast.model.errors import (
    InvalidLock,
    LockLost,
    LockTimeout,
    OutcomeUnknown,
    StoreUnavailable,
)
from holdfast.model.timing import SECOND
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import ResilientStore
from tests.chaos.waiting import until
from tests.engine.faulty import FaultyStore
from tests.engine.lock_rig import NAME, PATIENCE, LockRig, reached, rig

DOWN = StoreUnavailable("connection refused")
UNKNOWN = OutcomeUnknown("the answer was lost")


async def for_ever() -> None:
    await asyncio.sleep(PATIENCE / 2)
    raise AssertionError("nobody has cut it off")


async def is_free(locks: Locks, name: str = NAME) -> bool:
    grant = await locks.try_lock(name)
    if grant is not None:
        await grant.release()
    return grant is not None


async def waiters(made: LockRig, count: int) -> None:
    """Returns when so many calls have asked for a lock."""
    await until(lambda: made.faults.count("acquire"), "they have asked", count.__le__)


async def test_a_lock_is_held_in_the_block_and_free_after_it() -> None:
    async with rig() as (_, locks):
        async with locks.lock(NAME) as grant:
            assert grant.name == NAME
            assert not grant.lost
            assert await locks.try_lock(NAME) is None
            grant.check()
        assert not grant.lost
        second = await locks.try_lock(NAME)
        assert second is not None
        assert second.token > grant.token
        async with second:
            assert not await is_free(locks)
        assert await is_free(locks)


async def test_a_grant_may_be_released_early_and_again() -> None:
    async with rig() as (_, locks):
        async with locks.lock(NAME) as grant:
            await grant.release()
            await grant.release()
            async with locks.lock(NAME):
                pass
        assert await is_free(locks)


async def test_an_exception_in_the_block_passes_and_the_lock_is_free() -> None:
    async with rig() as (_, locks):
        with pytest.raises(ZeroDivisionError):
            async with locks.lock(NAME):
                raise ZeroDivisionError
        assert await is_free(locks)


async def test_who_waits_too_long_is_told_and_stands_in_line_no_more() -> None:
    async with rig() as (made, locks):
        async with locks.lock(NAME):
            with pytest.raises(LockTimeout, match=r"invoice:42 .* within 0\.05"):
                async with locks.lock(NAME, wait=0.05):
                    pass
            with pytest.raises(TimeoutError):
                await locks.acquire(NAME, wait=0)
        assert await is_free(locks)
        assert made.kinds().count("lock_timeout") == 2


async def test_waiters_are_served_in_order_of_arrival_and_the_wait_is_told() -> None:
    served: list[int] = []
    async with rig() as (made, locks):

        async def contend(number: int) -> None:
            async with locks.lock(NAME):
                served.append(number)

        async with locks.lock(NAME):
            tasks: list[asyncio.Task[None]] = []
            for number in range(5):
                tasks.append(asyncio.create_task(contend(number)))
                # The first one asks again when it has begun to listen.
                await waiters(made, 1 + 2 + number)
        await asyncio.gather(*tasks)
        assert served == [0, 1, 2, 3, 4]
        waits = [notice.facts["waited"] for notice in made.told if notice.kind == "lock_acquired"]
        assert len(waits) == 6
        assert waits[0] < waits[5] < waits[1]
        assert made.faults.count("acquire") == 1 + 6 + 5, "nobody asked without being woken"


async def test_one_who_stops_waiting_holds_nobody_up() -> None:
    async with rig() as (made, locks):
        async with locks.lock(NAME):
            first = asyncio.create_task(locks.acquire(NAME))
            await waiters(made, 3)
            second = asyncio.create_task(locks.acquire(NAME))
            await waiters(made, 4)
            first.cancel()
            await asyncio.wait([first])
        assert first.cancelled()
        assert (await second).token


async def test_a_grant_that_comes_after_its_wisher_has_gone_is_given_back() -> None:
    async with rig() as (made, locks):
        gate = asyncio.Event()
        plan = made.faults.plan("acquire", gate=gate)
        asking = asyncio.create_task(locks.acquire(NAME))
        await reached(plan.reached)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert not await is_free(locks), "the store has granted it"
        gate.set()
        await locks.close()
        assert await is_free(locks)


async def test_a_grant_whose_answer_was_lost_is_given_back() -> None:
    async with rig() as (made, locks):
        made.faults.plan("acquire", after=UNKNOWN)
        with pytest.raises(OutcomeUnknown):
            await locks.acquire(NAME)
        await locks.close()
        assert await is_free(locks)


async def test_an_acquire_whose_answer_was_lost_is_repeated_and_gives_the_same_grant() -> None:
    made = LockRig()
    async with rig(ResilientStore(FaultyStore(MemoryStore(), made.faults))) as (_, locks):
        made.faults.plan("acquire", after=UNKNOWN, times=2)
        async with locks.lock(NAME) as grant:
            assert made.faults.count("acquire") == 3
            assert not await is_free(locks)
            assert not grant.lost
        assert await is_free(locks)


async def test_a_grant_whose_answer_took_longer_than_its_lease_is_not_trusted() -> None:
    async with rig() as (made, locks):
        gate = asyncio.Event()
        plan = made.faults.plan("acquire", gate=gate)
        asking = asyncio.create_task(locks.acquire(NAME, ttl=0.2))
        await reached(plan.reached)
        asyncio.get_running_loop().call_later(0.3, gate.set)
        grant = await asking
        assert made.faults.count("acquire") == 2, "it is asked for again, and thereby prolonged"
        assert not grant.lost


async def test_a_lock_released_while_it_is_being_renewed_is_not_told_as_lost() -> None:
    async with rig() as (made, locks):
        released = threading.Event()

        def is_released(_holds: object) -> bool:
            return released.wait(PATIENCE)

        first = made.faults.plan("renew", when=is_released)
        grant = await locks.acquire(NAME, ttl=0.3)
        await until(lambda: made.faults.count("renew"), "the renewal is under way")
        await grant.release()
        released.set()
        await reached(first.reached)
        async with locks.lock("another", ttl=0.3):
            second = made.faults.plan("renew")
            await reached(second.reached)
        assert not grant.lost
        assert "lock_lost" not in made.kinds()


async def test_a_waiter_that_is_never_woken_asks_again() -> None:
    async with rig() as (made, locks):
        deaf = await made.locks()
        holder = await locks.acquire(NAME, ttl=1)
        stop: Callable[[], None] = lambda: None  # noqa: E731
        deaf._store.listen = lambda owner, wake: stop  # type: ignore[method-assign]
        waiting = asyncio.create_task(deaf.acquire(NAME, ttl=0.2))
        await waiters(made, 3)
        await holder.release()
        assert (await waiting).token > holder.token


async def test_a_lock_of_a_dead_holder_is_had_when_its_lease_has_ended() -> None:
    async with rig(MemoryStore()) as (made, locks):
        dead = await locks.acquire(NAME, ttl=0.3)
        made.renewer.discard(dead._lease)
        began = time.monotonic()
        grant = await locks.acquire(NAME)
        assert grant.token > dead.token
        assert time.monotonic() - began > 0.2
        assert dead.lost


async def test_a_body_that_blocks_its_event_loop_keeps_its_lock() -> None:
    async with rig(MemoryStore()) as (_, locks), locks.lock(NAME, ttl=0.3) as grant:
        time.sleep(1)  # noqa: ASYNC251  # blocks on purpose: that is the point
        assert not grant.lost
        assert not await is_free(locks)


async def test_many_locks_are_renewed_by_one_thread_in_few_calls() -> None:
    async with rig() as (made, locks):
        plan = made.faults.plan("renew", when=lambda holds: len(holds) == 50, times=3)
        grants = [await locks.acquire(f"lock-{number}", ttl=0.3) for number in range(50)]
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
        entered = asyncio.Event()

        async def hold() -> None:
            async with locks.lock(NAME):
                entered.set()
                await for_ever()

        task = asyncio.create_task(hold())
        await entered.wait()
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
        async with locks.lock(NAME, ttl=0.5) as grant:
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
        entered = asyncio.Event()

        async def hold() -> None:
            async with locks.lock(NAME):
                entered.set()
                await for_ever()

        holding = asyncio.create_task(hold())
        await entered.wait()
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


def test_trust_ends_before_the_lease_counted_from_when_it_was_asked_for() -> None:
    for ttl in (0.1, 1, 30, 3600):
        lease = LockLease(NAME, "ann", 1, round(ttl * SECOND), sent=100.0)
        assert 100 + 0.9 * ttl < lease.trust_until < 100 + ttl
        assert lease.beat_due == pytest.approx(100 + ttl / 3)
        lease.extended(200.0)
        assert 200 + 0.9 * ttl < lease.trust_until < 200 + ttl


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "a b"}),
        ("name", {"name": "x" * 201}),
        ("name", {"name": 7}),
        ("name", {"name": ":a"}),
        ("ttl", {"ttl": 0}),
        ("ttl", {"ttl": 0.05}),
        ("ttl", {"ttl": 86_401}),
        ("ttl", {"ttl": None}),
        ("ttl", {"ttl": float("nan")}),
        ("ttl", {"ttl": "30"}),
        ("wait", {"wait": -1}),
        ("wait", {"wait": "1"}),
    ],
)
async def test_what_cannot_be_is_refused_by_its_name(field: str, arguments: dict[str, object]) -> None:
    async with rig() as (made, locks):
        with pytest.raises(InvalidLock, match=f"^{field}: ") as raised:
            await locks.acquire(**{"name": NAME, **arguments})  # type: ignore[arg-type]
        assert raised.value.field == field
        assert made.faults.count("acquire") == 0

import asyncio
import gc
import threading
import time
from collections.abc import Callable

import pytest

from holdfast.engine.lock_lease import LockLease
from holdfast.model.errors import (
    InvalidLock,
    LockTimeout,
    OutcomeUnknown,
    StoreUnavailable,
)
from holdfast.model.timing import SECOND
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import ResilientStore
from tests.chaos.waiting import until
from tests.engine.faulty import FaultyStore
from tests.engine.lock_rig import NAME, PATIENCE, LockRig, is_free, reached, rig

DOWN = StoreUnavailable("connection refused")
UNKNOWN = OutcomeUnknown("the answer was lost")


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
            with pytest.raises(LockTimeout, match=r"invoice:42 .* within \d\S* s: others hold"):
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


async def test_a_fault_that_comes_after_its_wisher_has_gone_is_nobodys_complaint() -> None:
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with rig() as (made, locks):
        gate = asyncio.Event()
        plan = made.faults.plan("acquire", gate=gate, after=UNKNOWN)
        asking = asyncio.create_task(locks.acquire(NAME))
        await reached(plan.reached)
        asking.cancel()
        await asyncio.wait([asking])
        gate.set()
        await locks.close()
        del asking
        gc.collect()
    assert complaints == []


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
        grant = await locks.acquire(NAME, ttl=3)
        await until(lambda: made.faults.count("renew"), "the renewal is under way")
        await grant.release()
        released.set()
        await reached(first.reached)
        async with locks.lock("another", ttl=3):
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
        began = time.monotonic()
        dead = await locks.acquire(NAME, ttl=0.3)
        made.renewer.discard(dead._lease)
        grant = await locks.acquire(NAME)
        assert grant.token > dead.token
        assert time.monotonic() - began > 0.3
        assert dead.lost


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

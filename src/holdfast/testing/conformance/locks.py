"""Promises about locks: one holder at a time, tokens that only grow, a line that nobody can block."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from threading import Event

from holdfast.model.records import LockAnswer, LockHold, LockWish
from holdfast.store import LockStore, Session
from holdfast.testing.conformance.case import LEASE, LONG, Case, Promises, promise
from holdfast.testing.conformance.concurrency import on_threads
from holdfast.testing.conformance.optional import SOON

NAME = "invoice:42"
SHORT = 250_000
"""Microseconds after which one asks again, at the latest, whom the store cannot wake."""


def wish(owner: str, name: str = NAME, ttl: int = LONG, place: int = 0) -> LockWish:
    return LockWish(name=name, owner=owner, ttl=ttl, place=place)


def hold(owner: str, token: int, name: str = NAME, ttl: int = LONG) -> LockHold:
    return LockHold(name=name, owner=owner, token=token, ttl=ttl)


async def granted(locks: LockStore, asked: LockWish) -> int:
    answer = await locks.acquire(asked)
    assert answer.token is not None
    assert answer.after == 0
    return answer.token


async def refused(locks: LockStore, asked: LockWish) -> LockAnswer:
    answer = await locks.acquire(asked)
    assert answer.token is None
    return answer


class LockPromises(Promises):
    """Named locks."""

    @promise
    async def test_a_held_lock_is_refused_to_everybody_else(self, case: Case) -> None:
        locks, other = case.session.locks, (await case.open()).locks
        await granted(locks, wish("ann"))
        for place in (0, LONG):
            answer = await refused(other, wish("bob", place=place))
            assert 0 < answer.after <= LONG
        await granted(other, wish("bob", name="invoice:43"))

    @promise
    async def test_whoever_asks_is_told_the_holder(self, case: Case) -> None:
        locks, other = case.session.locks, (await case.open()).locks
        assert await locks.holder(NAME) is None
        token = await granted(locks, wish("ann/1", ttl=LEASE))
        held = await other.holder(NAME)
        assert held is not None
        assert (held.owner, held.token) == ("ann/1", token)
        assert 0 < held.left <= LEASE
        await refused(other, wish("bob", place=LONG))
        assert (await other.holder(NAME)) is not None
        case.advance(2.5)
        assert await other.holder(NAME) is None, "its lease has ended, and nobody has taken it"

    @promise
    async def test_the_same_owner_gets_the_same_grant_again_and_for_longer(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann", ttl=LEASE))
        case.advance(1.2)
        assert await granted(locks, wish("ann", ttl=LEASE)) == token
        case.advance(1.2)
        await refused(locks, wish("bob"))
        assert await granted(locks, wish("ann", ttl=1)) == token
        await refused(locks, wish("bob"))
        case.advance(2.5)
        assert await granted(locks, wish("bob")) > token

    @promise
    async def test_tokens_grow_over_all_locks_and_are_no_less_than_the_clock(self, case: Case) -> None:
        now = (await case.add()).created
        tokens: list[int] = []
        for number in range(20):
            owner, name = f"owner-{number}", f"lock-{number % 3}"
            tokens.append(await granted(case.session.locks, wish(owner, name=name)))
            await case.session.locks.release(name, owner, tokens[-1])
        assert now <= tokens[0]
        assert all(earlier < later for earlier, later in pairwise(tokens))
        case.advance(2)
        again = await granted((await case.open()).locks, wish("ann", name="new"))
        assert again > tokens[-1]
        assert again >= (await case.add()).created - 1_000_000

    @promise
    async def test_a_release_frees_the_lock_and_may_be_repeated(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        for _ in range(2):
            await locks.release(NAME, "ann", token)
        after = await granted(locks, wish("bob"))
        assert after > token
        await locks.release(NAME, "ann", token)
        assert await granted(locks, wish("bob")) == after

    @promise
    async def test_nobody_but_the_holder_can_release_or_renew(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        for owner, wrong in (("bob", token), ("ann", token - 1), ("ann", token + 1)):
            await locks.release(NAME, owner, wrong)
            assert await locks.renew([hold(owner, wrong)]) == [False]
        await locks.release(NAME, "bob", None)
        await locks.release("another", "ann", token)
        await refused(locks, wish("cid"))
        assert await locks.renew([hold("ann", token)]) == [True]

    @promise
    async def test_a_former_holder_changes_nothing_of_the_new_ones_lock(self, case: Case) -> None:
        locks = case.session.locks
        old = await granted(locks, wish("ann", ttl=LEASE))
        case.advance(2.5)
        new = await granted(locks, wish("bob"))
        assert await locks.renew([hold("ann", old)]) == [False]
        await locks.release(NAME, "ann", old)
        await locks.release(NAME, "ann", None)
        await refused(locks, wish("cid"))
        assert await locks.renew([hold("bob", new)]) == [True]

    @promise
    async def test_an_older_grant_of_the_same_owner_does_not_release_its_newer_one(self, case: Case) -> None:
        locks = case.session.locks
        old = await granted(locks, wish("ann", ttl=LEASE))
        case.advance(2.5)
        new = await granted(locks, wish("ann"))
        assert new > old
        await locks.release(NAME, "ann", old)
        assert await locks.renew([hold("ann", old), hold("ann", new)]) == [False, True]
        await refused(locks, wish("bob"))

    @promise
    async def test_a_renewed_lease_lasts_and_an_expired_one_is_never_revived(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann", ttl=LEASE))
        for _ in range(2):
            case.advance(1.2)
            assert await locks.renew([hold("ann", token, ttl=LEASE)]) == [True]
        assert await locks.renew([hold("ann", token, ttl=1)]) == [True]
        await refused(locks, wish("bob"))
        case.advance(2.5)
        assert await locks.renew([hold("ann", token)]) == [False]
        await granted(locks, wish("bob"))

    @promise
    async def test_many_are_renewed_at_once_each_with_its_own_answer(self, case: Case) -> None:
        locks = case.session.locks
        assert await locks.renew([]) == []
        tokens = {name: await granted(locks, wish("ann", name=name)) for name in ("a", "b", "c")}
        await locks.release("b", "ann", tokens["b"])
        holds = [hold("ann", tokens[name], name=name) for name in ("a", "b", "c")]
        assert await locks.renew([*holds, hold("ann", 1, name="never")]) == [True, False, True, False]

    @promise
    async def test_a_lease_has_ended_at_its_last_microsecond(self, case: Case) -> None:
        locks = case.session.locks
        now = (await case.add()).created
        token = await granted(locks, wish("ann", ttl=LEASE))
        await case.advance_to(now + LEASE - 1)
        await refused(locks, wish("bob"))
        await case.advance_to(now + LEASE)
        assert await locks.renew([hold("ann", token)]) == [False]
        assert await granted(locks, wish("bob")) > token

    @promise
    async def test_who_came_first_is_served_first(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        for owner in ("bob", "cid", "dan"):
            await refused(locks, wish(owner, place=LONG))
        await refused(locks, wish("bob", place=LONG))
        await locks.release(NAME, "ann", token)
        await refused(locks, wish("newcomer"))
        for owner, others in (("bob", ("cid", "dan")), ("cid", ("dan",)), ("dan", ())):
            for other in others:
                await refused(locks, wish(other, place=LONG))
            token = await granted(locks, wish(owner, place=LONG))
            await locks.release(NAME, owner, token)
        await granted(locks, wish("newcomer"))

    @promise
    async def test_a_waiter_that_is_gone_holds_nobody_up_beyond_its_place(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        await refused(locks, wish("gone", place=LEASE))
        await refused(locks, wish("bob", place=LONG))
        await locks.release(NAME, "ann", token)
        answer = await refused(locks, wish("bob", place=LONG))
        assert 0 < answer.after <= LEASE
        case.advance(2.5)
        await refused(locks, wish("gone", place=LEASE))
        await granted(locks, wish("bob"))

    @promise
    async def test_asking_again_keeps_a_place(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        await refused(locks, wish("bob", place=LEASE))
        await refused(locks, wish("cid", place=LONG))
        for _ in range(2):
            case.advance(1.2)
            await refused(locks, wish("bob", place=LEASE))
        await locks.release(NAME, "ann", token)
        await refused(locks, wish("cid", place=LONG))
        await granted(locks, wish("bob"))

    @promise
    async def test_after_tells_of_lease_and_places(self, case: Case) -> None:
        locks = case.session.locks
        await granted(locks, wish("ann", ttl=LEASE))
        first = await refused(locks, wish("bob", place=2 * LEASE))
        second = await refused(locks, wish("cid", place=LONG))
        stranger = await refused(locks, wish("dan"))
        ends = (LEASE, 2 * LEASE, LONG)
        for answer, before, end in zip((first, second, stranger), (0, *ends), ends, strict=False):
            assert before < answer.after <= end or 0 < answer.after <= SHORT

    @promise
    async def test_who_leaves_the_line_makes_room_for_the_next(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        for owner in ("bob", "cid"):
            await refused(locks, wish(owner, place=LONG))
        await locks.release(NAME, "ann", token)
        await locks.release(NAME, "bob", None)
        await granted(locks, wish("cid"))
        await locks.release(NAME, "cid", None)
        await granted(locks, wish("bob"))

    @promise
    async def test_a_release_wakes_the_first_in_line(self, case: Case) -> None:
        locks, other = case.session.locks, (await case.open()).locks
        token = await granted(locks, wish("ann"))
        bells = [Bell(other, owner) for owner in ("bob", "cid")]
        for bell in bells:
            await refused(other, wish(bell.owner, place=LONG))
        await locks.release(NAME, "ann", token)
        assert await bells[0].rings()
        token = await granted(other, wish("bob"))
        bells[1].rung.clear()
        await other.release(NAME, "bob", token)
        assert await bells[1].rings()
        for bell in bells:
            bell.stop()

    @promise
    async def test_one_who_leaves_a_free_lock_wakes_the_next(self, case: Case) -> None:
        locks, other = case.session.locks, (await case.open()).locks
        token = await granted(locks, wish("ann"))
        for owner in ("bob", "cid"):
            await refused(locks, wish(owner, place=LONG))
        await locks.release(NAME, "ann", token)
        bell = Bell(other, "cid")
        await locks.release(NAME, "bob", None)
        assert await bell.rings()
        bell.stop()

    @promise
    async def test_who_stopped_listening_is_not_woken(self, case: Case) -> None:
        locks = case.session.locks
        token = await granted(locks, wish("ann"))
        bells = [Bell(locks, owner) for owner in ("bob", "cid")]
        for bell in bells:
            await refused(locks, wish(bell.owner, place=LONG))
        bells[0].stop()
        bells[0].stop()
        bells[0].rung.clear()
        await locks.release(NAME, "ann", token)
        await locks.release(NAME, "bob", None)
        assert await bells[1].rings()
        assert not bells[0].rung.is_set()
        bells[1].stop()

    @promise
    async def test_locks_of_another_namespace_are_others(self, case: Case) -> None:
        foreign = (await case.open(f"{case.namespace}-other")).locks
        token = await granted(case.session.locks, wish("ann"))
        theirs = await granted(foreign, wish("ann"))
        await foreign.release(NAME, "ann", theirs)
        await foreign.release(NAME, "ann", token)
        await foreign.release(NAME, "ann", None)
        assert await foreign.renew([hold("ann", token)]) == [False]
        await refused(case.session.locks, wish("bob"))

    @promise
    async def test_names_and_owners_come_as_they_are(self, case: Case) -> None:
        locks = case.session.locks
        names = ("a:b/c", "A:b/c", "x" * 200, "0", "with.all@of+them=in-it_", "it's;--")
        tokens = [await granted(locks, wish("o'wner: 1", name=name)) for name in names]
        assert len(set(tokens)) == len(names)
        for name, token in zip(names, tokens, strict=True):
            assert await locks.renew([hold("o'wner: 1", token, name=name)]) == [True]

    @promise
    async def test_contenders_on_many_threads_hold_it_one_at_a_time(self, case: Case) -> None:
        rounds = 10
        inside = Counter[str]()
        tokens: list[int] = []

        async def contend(worker: str) -> None:
            session = await case.store.connect(case.namespace)
            try:
                for turn in range(rounds):
                    token = await take(session, f"{worker}-{turn}")
                    inside["now"] += 1
                    inside["most"] = max(inside["most"], inside["now"])
                    tokens.append(token)
                    inside["now"] -= 1
                    await session.locks.release(NAME, f"{worker}-{turn}", token)
            finally:
                await session.close()

        workers = len(await on_threads(contend))
        assert inside["most"] == 1
        assert len(tokens) == workers * rounds
        assert all(earlier < later for earlier, later in pairwise(tokens))


class Bell:
    """Listens for one owner."""

    def __init__(self, locks: LockStore, owner: str) -> None:
        self.owner = owner
        self.rung = Event()
        self.stop: Callable[[], None] = locks.listen(owner, self.rung.set)

    async def rings(self) -> bool:
        return await asyncio.to_thread(self.rung.wait, SOON)


async def take(session: Session, owner: str) -> int:
    """Waits in line as the engine does."""
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    stop = session.locks.listen(owner, wake)
    try:
        while True:
            woken.clear()
            answer = await session.locks.acquire(wish(owner, place=LONG))
            if answer.token is not None:
                return answer.token
            async with asyncio.timeout(4 * SOON):  # all the others may have their turns before it
                await woken.wait()
    finally:
        stop()

"""Random sequences of calls about locks: every store answers as the memory store does."""

from random import Random

from holdfast.model.records import LockHold, LockWish
from holdfast.model.timing import SECOND
from holdfast.store import LockStore
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.case import Case, Promises, promise
from holdfast.testing.conformance.locks import SHORT

SEQUENCES = 6
STEPS = 100
OWNERS = ("ann", "bob", "cid", "dan")
SECONDS = (1, 2, 5)


class LockSequencePromises(Promises):
    """Needs a clock that can be moved."""

    @promise
    async def test_any_sequence_is_answered_as_by_the_memory_store(self, case: Case) -> None:
        await case.advance_to((await case.add()).created)
        clock = ManualClock()
        reference = await MemoryStore(clock).connect("reference")
        for seed in range(SEQUENCES):
            pair = _Pair(case.session.locks, reference.locks, Random(seed), f"lock-{seed}")
            for _ in range(STEPS):
                seconds = await pair.step()
                case.advance(seconds)
                clock.advance(seconds)


class _Pair:
    """The locks under test and those of the reference, asked the same."""

    def __init__(self, locks: LockStore, reference: LockStore, draw: Random, name: str) -> None:
        self._both = (locks, reference)
        self._draw = draw
        self._name = name
        self._grants: dict[int, tuple[str, int]] = {}
        """By the token under test: owner, and the token of the reference."""

    async def step(self) -> float:
        """One call to both; how much time shall pass after it."""
        draw = self._draw
        await draw.choices((self._acquire, self._renew, self._release, self._leave), (6, 2, 2, 1))[0]()
        return draw.choice((0, 0, 0.25, 0.5, 1, 2))

    async def _acquire(self) -> None:
        draw = self._draw
        wish = LockWish(
            name=self._name,
            owner=draw.choice(OWNERS),
            ttl=draw.choice(SECONDS) * SECOND,
            place=draw.choice((0, *SECONDS)) * SECOND,
        )
        ours, theirs = [await locks.acquire(wish) for locks in self._both]
        assert ours.after == theirs.after or 0 < ours.after <= min(SHORT, theirs.after)
        assert (ours.token is None) == (theirs.token is None)
        if ours.token is not None and theirs.token is not None:
            is_new = ours.token not in self._grants
            assert not is_new or ours.token > max(self._grants, default=0)
            assert self._grants.setdefault(ours.token, (wish.owner, theirs.token)) == (
                wish.owner,
                theirs.token,
            )

    async def _renew(self) -> None:
        ttl = self._draw.choice(SECONDS) * SECOND
        holds = [
            (
                LockHold(name=self._name, owner=owner, token=token, ttl=ttl),
                LockHold(name=self._name, owner=owner, token=other, ttl=ttl),
            )
            for token, (owner, other) in list(self._grants.items())[-4:]
        ]
        ours = await self._both[0].renew([hold for hold, _ in holds])
        assert ours == await self._both[1].renew([hold for _, hold in holds])

    async def _release(self) -> None:
        if self._grants:
            token = self._draw.choice(list(self._grants)[-3:])
            owner, other = self._grants[token]
            await self._both[0].release(self._name, owner, token)
            await self._both[1].release(self._name, owner, other)

    async def _leave(self) -> None:
        owner = self._draw.choice(OWNERS)
        for locks in self._both:
            await locks.release(self._name, owner, None)

"""Promises of limits as records: what is put, swapped, paused and removed."""

from msgspec.structs import replace

from holdfast.model.flow import LimitRecord, Scope
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import QUEUE, TASK, Case, Promises, promise
from holdfast.testing.conformance.limits import KEY, limit


def _as_put(limits: list[LimitRecord]) -> list[LimitRecord]:
    """Without what the store says itself."""
    return [replace(each, paused_since=None) for each in limits]


class LimitRecordPromises(Promises):
    """How limits are kept."""

    @promise
    async def test_limits_are_kept_as_they_were_put(self, case: Case) -> None:
        put = [
            limit(Scope.EACH_KEY, TASK, concurrency=3),
            limit(Scope.KEY, "é \x01 key", rate=5, period=SECOND, burst=2, weight=2.5),
            limit(Scope.QUEUE, QUEUE, concurrency=2**31 - 1),
            limit(Scope.TASK, TASK, paused=True),
        ]
        await case.flow.put(put)
        assert _as_put(await case.flow.limits()) == put
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=1)])
        await case.flow.remove(Scope.QUEUE, QUEUE)
        await case.flow.remove(Scope.QUEUE, QUEUE)
        assert await case.flow.limits() == [*put[:2], limit(Scope.TASK, TASK, concurrency=1)]

    @promise
    async def test_a_limit_is_paused_since_the_store_heard_of_it(self, case: Case) -> None:
        before = (await case.add()).created
        case.advance(1)
        await case.flow.put([limit(Scope.KEY, KEY, paused=True, paused_since=1)])
        [paused] = await case.flow.limits()
        assert paused.paused_since is not None
        assert before < paused.paused_since
        case.advance(1)
        await case.flow.put([limit(Scope.KEY, KEY, paused=True, concurrency=3)])
        [still] = await case.flow.limits()
        assert (still.concurrency, still.paused_since) == (3, paused.paused_since)
        await case.flow.put([replace(still, paused=False)])
        [open_again] = await case.flow.limits()
        assert open_again.paused_since is None
        case.advance(1)
        await case.flow.put([replace(still, paused=True), limit(Scope.TASK, TASK, paused=True)])
        again, other = await case.flow.limits()
        assert again.paused_since == other.paused_since
        assert again.paused_since is not None
        assert again.paused_since > paused.paused_since
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=1, declared=True)])
        assert (await case.flow.limits())[1] == other, "what was set stays as it was"

    @promise
    async def test_one_that_was_declared_gives_way_to_one_that_was_set(self, case: Case) -> None:
        declared = limit(Scope.TASK, TASK, concurrency=1, declared=True)
        await case.flow.put([declared])
        await case.flow.put([limit(Scope.TASK, TASK, concurrency=5)])
        await case.flow.put([declared])
        assert await case.flow.limits() == [limit(Scope.TASK, TASK, concurrency=5)]

    @promise
    async def test_a_limit_takes_the_place_of_the_one_that_was_read_alone(self, case: Case) -> None:
        one, two = (limit(Scope.KEY, "é \x01 key", concurrency=number, weight=2.5) for number in (1, 2))
        assert not await case.flow.swap(one, two)
        assert await case.flow.swap(None, one)
        assert not await case.flow.swap(None, two)
        assert await case.flow.swap(one, two)
        assert not await case.flow.swap(one, None)
        assert await case.flow.limits() == [two]
        declared = limit(Scope.TASK, TASK, rate=7, period=SECOND, burst=3, declared=True)
        assert await case.flow.swap(None, declared)
        paused = limit(Scope.TASK, TASK, rate=7, period=SECOND, burst=3, declared=True, paused=True)
        assert await case.flow.swap(declared, paused)
        assert _as_put(await case.flow.limits()) == [two, paused]
        assert await case.flow.swap(two, None)
        [began] = await case.flow.limits()
        case.advance(1)
        limited = replace(paused, concurrency=2, declared=False)
        assert await case.flow.swap(paused, limited)
        assert await case.flow.limits() == [replace(limited, paused_since=began.paused_since)]
        assert await case.flow.swap(limited, declared)
        assert await case.flow.limits() == [declared]

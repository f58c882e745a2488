import asyncio

import pytest

from holdfast.engine.enqueuer import Enqueuer
from holdfast.model.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from tests.app.support import SlowAdds, new_job


async def test_a_lone_job_leaves_at_once() -> None:
    store = SlowAdds()
    store.let_go()
    enqueuer = Enqueuer(store, batch=10, timeout=5)
    job = new_job()
    (added,) = await enqueuer.add([job])
    assert added.record.id == job.id
    assert store.batches == [[job]]


async def test_jobs_that_come_while_one_is_under_way_leave_together() -> None:
    store = SlowAdds()
    enqueuer = Enqueuer(store, batch=10, timeout=5)
    first = asyncio.create_task(enqueuer.add([new_job()]))
    await store.arrival()
    others = [asyncio.create_task(enqueuer.add([new_job()])) for _ in range(5)]
    await asyncio.sleep(0)
    store.let_go(2)
    answers = await asyncio.gather(first, *others)
    assert [len(batch) for batch in store.batches] == [1, 5]
    assert [answer[0].record.id for answer in answers] == [job.id for batch in store.batches for job in batch]


async def test_a_batch_is_never_larger_than_the_setting_and_groups_stay_whole() -> None:
    store = SlowAdds()
    enqueuer = Enqueuer(store, batch=5, timeout=5)
    adding = asyncio.gather(*(enqueuer.add([new_job(), new_job()]) for _ in range(5)))
    await store.arrival()
    store.let_go(3)
    await adding
    assert [len(batch) for batch in store.batches] == [2, 4, 4]


async def test_a_cancelled_caller_hurts_nobody_and_what_was_not_sent_is_left_out() -> None:
    store = SlowAdds()
    enqueuer = Enqueuer(store, batch=10, timeout=5)
    sent = asyncio.create_task(enqueuer.add([new_job()]))
    await store.arrival()
    unsent, other = (asyncio.create_task(enqueuer.add([new_job()])) for _ in range(2))
    await asyncio.sleep(0)
    sent.cancel()
    unsent.cancel()
    store.let_go(2)
    (added,) = await other
    assert [len(batch) for batch in store.batches] == [1, 1]
    assert store.batches[1][0].id == added.record.id


async def test_a_lost_answer_is_asked_for_once_more_with_the_same_ids() -> None:
    store = SlowAdds()
    store.errors = [OutcomeUnknown("lost"), None]
    store.let_go(2)
    job = new_job()
    (added,) = await Enqueuer(store, batch=10, timeout=5).add([job])
    assert added.record.id == job.id
    assert store.batches == [[job], [job]]


async def test_two_lost_answers_are_told_to_each_caller() -> None:
    store = SlowAdds()
    store.errors = [OutcomeUnknown("lost"), OutcomeUnknown("lost again")]
    store.let_go(2)
    enqueuer = Enqueuer(store, batch=10, timeout=5)
    errors = await asyncio.gather(
        enqueuer.add([new_job()]), enqueuer.add([new_job()]), return_exceptions=True
    )
    assert [type(error) for error in errors] == [OutcomeUnknown, OutcomeUnknown]
    assert errors[0] is not errors[1]


@pytest.mark.parametrize("second", [StoreUnavailable("away"), StoreFull("no space")])
async def test_a_lost_answer_stays_unknown_when_it_cannot_be_asked_for_again(second: StoreError) -> None:
    """The second call did nothing; the first one may have stored the job."""
    store = SlowAdds()
    store.errors = [OutcomeUnknown("lost"), second]
    store.let_go(2)
    with pytest.raises(OutcomeUnknown, match=r"lost; sending it again failed: (away|no space)"):
        await Enqueuer(store, batch=10, timeout=5).add([new_job()])


async def test_a_full_store_is_told_as_it_is_and_the_next_job_is_tried() -> None:
    store = SlowAdds()
    store.errors = [StoreFull("no space")]
    store.let_go(2)
    enqueuer = Enqueuer(store, batch=10, timeout=5)
    with pytest.raises(StoreFull, match="no space"):
        await enqueuer.add([new_job()])
    assert await enqueuer.add([new_job()])


async def test_a_job_that_the_store_cannot_take_does_not_take_others_with_it() -> None:
    store = SlowAdds()
    store.errors = [None, ValueError("bad row"), None, ValueError("bad row"), None]
    enqueuer = Enqueuer(store, batch=10, timeout=5)
    adding = asyncio.gather(*(enqueuer.add([new_job()]) for _ in range(4)), return_exceptions=True)
    await store.arrival()
    store.let_go(5)
    answers = await adding
    assert [isinstance(answer, ValueError) for answer in answers] == [False, False, True, False]
    assert [len(batch) for batch in store.batches] == [1, 3, 1, 1, 1]


async def test_those_who_wait_for_a_lone_call_are_sent_though_it_failed_or_was_cancelled() -> None:
    for is_cancelled in (False, True):
        store = SlowAdds()
        store.errors = [ValueError("bad row"), None]
        enqueuer = Enqueuer(store, batch=10, timeout=5)
        lone = asyncio.create_task(enqueuer.add([new_job()]))
        await store.arrival()
        other = asyncio.create_task(enqueuer.add([new_job()]))
        await asyncio.sleep(0)
        if is_cancelled:
            lone.cancel()
            store.errors = [None]
        store.let_go(2)
        with pytest.raises(asyncio.CancelledError if is_cancelled else ValueError):
            await lone
        assert len(await other) == 1
        await enqueuer.close()


async def test_a_call_ends_in_time_and_says_whether_the_job_was_sent() -> None:
    store = SlowAdds()
    enqueuer = Enqueuer(store, batch=1, timeout=0.05)
    errors = await asyncio.gather(*(enqueuer.add([new_job()]) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in errors] == [OutcomeUnknown, StoreUnavailable, StoreUnavailable]
    assert all("enqueue_timeout_seconds" in str(error) for error in errors)
    store.let_go()
    assert await enqueuer.add([new_job()])


async def test_closing_waits_for_what_is_under_way() -> None:
    store = SlowAdds()
    enqueuer = Enqueuer(store, batch=1, timeout=5)
    adding = asyncio.create_task(enqueuer.add([new_job()]))
    await store.arrival()
    closing = asyncio.create_task(enqueuer.close())
    await asyncio.sleep(0)
    assert not closing.done()
    store.let_go()
    await closing
    assert len(await adding) == 1

from datetime import UTC, datetime

import pytest

from holdfast import ConfigurationError, Context, Fixed, Holdfast, Never, NotOpen, State


class Shop:
    """An application with a few tasks, and what they did."""

    def __init__(self) -> None:
        self.app = Holdfast("sqlite:////no/such/folder/jobs.db", state=self)
        self.sold: list[str] = []

        @self.app.task
        async def sell(item: str, count: int = 1) -> int:
            self.sold.append(item)
            return count

        @self.app.task(queue="slow", retry=Fixed(max_retries=1, wait=30))
        def fail(ctx: Context["Shop"], item: str) -> None:
            ctx.state.sold.append(f"{item} {ctx.run}")
            raise ValueError(item)

        @self.app.task(retry=Never())
        async def restock(item: str) -> None:
            await sell.enqueue(item)

        self.sell = sell
        self.fail = fail
        self.restock = restock


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_due_jobs_and_what_they_lead_to_are_run(shop: Shop) -> None:
    async with shop.app.testing() as testing:
        job = await shop.sell.enqueue("tea", count=3)
        await shop.restock.enqueue("milk")
        await shop.sell.using(queue="elsewhere").enqueue("salt")
        await testing.drain()
        assert sorted(shop.sold) == ["milk", "salt", "tea"]
        assert await job.result() == 3


async def test_time_passes_only_by_hand(shop: Shop) -> None:
    async with shop.app.testing() as testing:
        await shop.sell.using(delay=60).enqueue("tea")
        await testing.drain()
        assert shop.sold == []
        before = testing.now
        testing.advance(60)
        assert (testing.now - before).total_seconds() == 60
        await testing.drain()
        assert shop.sold == ["tea"]


async def test_retries_follow_the_clock_and_end_in_the_dead_letter_queue(shop: Shop) -> None:
    async with shop.app.testing() as testing:
        job = await shop.fail.enqueue("tea")
        await testing.drain()
        assert "waits for retry 1 of " in str(await shop.app.explain(job.id))
        assert [each.state for each in testing.jobs()] == [State.RETRY]
        testing.advance(30)
        await testing.drain()
        assert [each.state for each in testing.jobs(shop.fail)] == [State.DLQ]
        assert shop.sold == ["tea 1", "tea 2"]


def test_blocking_code_is_tested_without_a_loop(shop: Shop) -> None:
    with shop.app.testing() as testing:
        job = shop.sell.enqueue_sync("tea")
        shop.restock.enqueue_sync("milk")
        testing.drain_sync()
        assert sorted(shop.sold) == ["milk", "tea"]
        assert shop.app.sync.result(job) == 1


async def test_what_was_enqueued_can_be_asserted(shop: Shop) -> None:
    async with shop.app.testing() as testing:
        await shop.sell.enqueue("tea")
        await shop.sell.using(queue="slow").enqueue("milk", count=2)
        testing.assert_enqueued(shop.sell)
        testing.assert_enqueued(shop.sell, count=2)
        testing.assert_enqueued(shop.sell, arguments={"item": "tea", "count": 1}, count=1)
        testing.assert_enqueued(shop.sell, arguments={"item": "milk"}, queue="slow")
        testing.assert_enqueued(shop.fail, count=0)
        await testing.drain()
        testing.assert_enqueued(shop.sell, count=2)
        assert [job.queue for job in testing.jobs()] == ["default", "slow"]
        assert len(testing.jobs(queue="slow")) == 1


async def test_a_failed_assertion_tells_what_there_is(shop: Shop) -> None:
    async with shop.app.testing() as testing:
        with pytest.raises(AssertionError, match=r"0 enqueued, expected at least 1 of 'fail'.* none"):
            testing.assert_enqueued(shop.fail)
        await shop.sell.enqueue("tea")
        for wrong in ({"arguments": {"item": "milk"}}, {"queue": "slow"}, {"arguments": {"colour": 1}}):
            with pytest.raises(AssertionError, match=r"\{'item': 'tea', 'count': 1\} in queue 'default'"):
                testing.assert_enqueued(shop.sell, **wrong)
        with pytest.raises(AssertionError, match="1 enqueued, expected 2 of 'sell'"):
            testing.assert_enqueued(shop.sell, count=2)


async def test_each_test_starts_empty_at_the_time_it_asks_for(shop: Shop) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    for _ in range(2):
        async with shop.app.testing(start) as testing:
            assert testing.now == start
            assert testing.jobs() == []
            job = await shop.sell.enqueue("tea")
            assert job.created == start


async def test_the_real_store_is_back_afterwards(shop: Shop) -> None:
    app = Holdfast("memory://")
    store = app.store
    async with app.testing():
        assert app.store is not store
    assert app.store is store
    with pytest.raises(NotOpen):
        await app.stats()


async def test_an_open_application_is_not_put_under_test() -> None:
    app = Holdfast("memory://")
    async with app:
        with pytest.raises(ConfigurationError, match="the application is open"):
            app.testing().__enter__()

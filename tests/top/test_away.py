"""A store that is away is shown as such, and is shown again when it is back."""

import pytest

from holdfast import Holdfast
from holdfast.cli.top.watcher import Watcher
from holdfast.model.errors import StoreUnavailable
from tests.servers.redis import Redis
from tests.top.support import Shop

pytestmark = pytest.mark.process


async def test_a_store_that_goes_away_and_comes_back(private_redis: Redis) -> None:
    shop = Shop(private_redis.url)
    async with shop.app:
        await shop.app.queues.pause("mail")
        async with shop.shown((120, 30), patience=1.0) as screen:
            await screen.until("answers in", "mail", "circuit closed")
            private_redis.freeze()
            await screen.until("store away for", "no answer within 1 s", "mail")
            await screen.press("p", "y")  # keys are answered, and so is who uses them
            await screen.press("4", "1")
            assert screen.display.view.name == "overview"
            private_redis.thaw()
            await screen.until("answers in")
            await screen.without("store away")


async def test_a_store_that_is_away_at_first(private_redis: Redis) -> None:
    private_redis.stop()
    shop = Shop(private_redis.url)
    async with shop.shown((120, 30), patience=1.0) as screen:
        await screen.until("store away for", "Nothing is known yet.")
        await screen.press("slash", *"0123abcd", "enter")
        await screen.until("the store is away")
        private_redis.start()
        await screen.until("answers in", "0 queued")


def test_nothing_is_done_to_a_store_that_is_not_open() -> None:
    with pytest.raises(StoreUnavailable):
        _ = Watcher(Holdfast("memory://"), interval=1).app

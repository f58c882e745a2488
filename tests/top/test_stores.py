"""The same on every store: the display, a deed, and what is printed once."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.stores import open_store
from tests.top.support import Shop


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    found: str = request.getfixturevalue(
        {"postgres": "postgres_database", "redis": "redis_url"}[request.param]
    )
    return found


async def test_the_display(url: str) -> None:
    store = open_store(url)
    if store.migrations is not None:
        await store.migrations.apply()
    await store.close()
    shop = Shop(url)
    async with shop.app, shop.app.lock("billing"):
        await shop.fill()
        async with shop.shown((140, 40)) as screen:
            await screen.until("1 dead", "1 completed", "nightly", "mail")
            await screen.press("p", "y")
            await screen.until("Queue mail is paused.")
            assert [queue.paused for queue in await shop.app.queues.list()] == [True]
            await screen.press("7")
            await screen.until("billing")
        namespace = shop.app.settings.namespace
        document = json.loads(await asyncio.to_thread(printed, url, namespace))
    assert document["counts"]["failed"] == 1
    assert [lock["name"] for lock in document["locks"] if not lock["internal"]] == ["billing"]


def printed(url: str, namespace: str) -> str:
    options = ["--store", url, "--namespace", namespace, "--once", "--json"]
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "top", *options], capture_output=True, text=True, check=True
    ).stdout

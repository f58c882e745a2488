"""What the wrapper does not touch."""

from pathlib import Path

import pytest

from holdfast.model.errors import StoreUnavailable
from holdfast.store import Session
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import ResilientStore
from holdfast.stores.sqlite import SqliteStore
from tests.resilient.rig import DOWN


class Closing:
    """A memory store that notes what is closed, and whose facts cannot be had."""

    migrations = None
    transactions = None

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.asked = 0

    async def connect(self, namespace: str) -> Session:
        session = await MemoryStore().connect(namespace)

        async def close() -> None:
            self.closed.append("session")

        session.close = close  # type: ignore[method-assign]
        return session

    async def facts(self) -> dict[str, str]:
        self.asked += 1
        raise DOWN

    async def close(self) -> None:
        self.closed.append("store")


async def test_migrations_transactions_and_facts_are_those_of_the_store(tmp_path: Path) -> None:
    inner = SqliteStore.from_url(f"sqlite:///{tmp_path}/jobs.db")
    store = ResilientStore(inner)
    assert store.migrations is inner.migrations
    assert store.transactions is inner.transactions
    assert await store.facts() == await inner.facts()
    await store.close()


async def test_wakeups_are_those_of_the_session() -> None:
    session = await ResilientStore(MemoryStore()).connect("test")
    heard: list[int] = []
    assert session.wakeups is not None
    stop = session.wakeups.listen(lambda: heard.append(1))
    await session.fleet.pause("mail")
    await session.fleet.resume("mail")
    stop()
    assert heard


async def test_closing_reaches_session_and_store() -> None:
    inner = Closing()
    store = ResilientStore(inner)
    await (await store.connect("test")).close()
    await store.close()
    assert inner.closed == ["session", "store"]


async def test_facts_are_asked_for_once() -> None:
    inner = Closing()
    with pytest.raises(StoreUnavailable):
        await ResilientStore(inner).facts()
    assert inner.asked == 1

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast
from holdfast import ConfigurationError, Holdfast, InvalidJob, KeyConflict, NotOpen, State
from holdfast.config import load_settings
from holdfast.model.overrides import Overrides
from holdfast.model.records import Added, NewJob
from holdfast.model.settings import Settings
from tests.app.support import record_of


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://", state={"shared": True})


def test_every_public_name_exists_and_is_listed_once() -> None:
    assert len(holdfast.__all__) == len(set(holdfast.__all__))
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


def test_the_settings_as_keywords_are_the_settings() -> None:
    assert set(Overrides.__annotations__) == set(Settings.__struct_fields__)


def test_an_application_reads_nothing_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("read too early")

    monkeypatch.setattr("holdfast.app.load_settings", refuse)
    monkeypatch.setattr("holdfast.opening.open_store", refuse)
    app = Holdfast("sqlite:////no/such/folder/jobs.db", lease_seconds=-5)

    @app.task
    async def quiet() -> None:
        raise NotImplementedError

    assert quiet.name == "quiet"
    assert app.tasks["quiet"] is quiet


def test_settings_given_in_code_win_and_wrong_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CONCURRENCY", "3")
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "from-environment")
    app = Holdfast("memory://", concurrency=7)
    assert (app.settings.concurrency, app.settings.namespace) == (7, "from-environment")
    assert app.settings == load_settings({"store": "memory://", "concurrency": 7})
    with pytest.raises(ConfigurationError, match="lease_seconds"):
        _ = Holdfast("memory://", lease_seconds=-1).settings
    with pytest.raises(ConfigurationError, match="unknown setting 'leese'"):
        _ = Holdfast("memory://", leese=1).settings  # type: ignore[call-arg]


async def test_settings_can_be_given_later_but_not_while_open(app: Holdfast) -> None:
    assert app.configured(concurrency=4, namespace=None) is app
    assert (app.settings.concurrency, app.settings.namespace) == (4, "default")
    async with app:
        with pytest.raises(ConfigurationError, match="open"):
            app.configured(concurrency=5)


async def test_a_job_is_stored_with_what_task_and_call_say(app: Holdfast) -> None:
    @app.task(queue="slow", priority=4)
    async def add(a: int, b: int = 2) -> int:
        return a + b

    async with app:
        job = await add.enqueue(1)
        assert (job.task, job.queue, job.priority, job.state) == ("add", "slow", 4, State.SCHEDULED)
        special = await add.using(queue="fast").using(tags=["x"], priority=-1, delay=60).enqueue(1, b=3)
        assert (special.queue, special.tags, special.priority) == ("fast", ("x",), -1)
        assert special.due > job.due
        assert await app.get(special.id) == special
        many = await app.enqueue_many([add.call(1, 2), add.using(key="k").call(3)])
        assert [each.key for each in many] == [None, "k"]
        with pytest.raises(KeyConflict):
            await add.using(key="k").enqueue(4)


async def test_a_wrong_call_is_refused_before_the_store_is_asked(app: Holdfast) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    with pytest.raises(InvalidJob, match=r"arguments\.a"):
        add.call("x")  # type: ignore[arg-type]
    async with app:
        with pytest.raises(InvalidJob, match=r"arguments\.a"):
            await add.enqueue("x")  # type: ignore[arg-type]
        assert (await app.stats()).queued == 0


def test_the_payload_limit_is_a_setting() -> None:
    app = Holdfast("memory://", payload_bytes=20)

    @app.task
    def take(text: str) -> None:
        raise NotImplementedError

    assert take.call("x").payload == b'{"text":"x"}'
    with pytest.raises(InvalidJob, match="limit of 20"):
        take.call("x" * 20)


async def test_a_task_stays_a_plain_function(app: Holdfast) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @app.task(name="other.name")
    def shout(text: str) -> str:
        return text.upper()

    assert await add(1, 2) == 3
    assert shout("x") == "X"
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert shout.name == "other.name"
    assert "other.name" in repr(shout)


def test_types_that_are_local_to_a_function_can_be_named_as_text(app: Holdfast) -> None:
    @dataclass
    class Local:
        size: int

    @app.task
    def bare(value: "Local") -> None:
        raise NotImplementedError

    @app.task(name="called")
    def called(value: "Local") -> "Local":
        raise NotImplementedError

    assert bare.call(Local(3)).payload == called.call(Local(3)).payload == b'{"value":{"size":3}}'


async def test_using_an_application_that_is_not_open_says_how_to_open_it(app: Holdfast) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    calls: list[Callable[[], Any]] = [
        lambda: add.enqueue(1),
        lambda: app.get("x"),
        app.find,
        lambda: app.queues.pause("q"),
        app.dlq.replay,
    ]
    for call in calls:
        with pytest.raises(NotOpen, match="async with app"):
            await call()


async def test_an_application_can_be_entered_again_and_nested(app: Holdfast) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    async with app:
        job = await add.enqueue(1)
        async with app:
            await add.enqueue(2)
        await add.enqueue(3)
    with pytest.raises(NotOpen):
        await add.enqueue(4)
    async with app:
        assert (await app.stats()).queued == 3
        found = await app.get(job.id)
        assert found is not None


def test_an_application_can_be_used_by_one_event_loop_after_another(app: Holdfast) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    async def use() -> int:
        async with app:
            await add.enqueue(1)
            return (await app.stats()).queued

    assert [asyncio.run(use()), asyncio.run(use())] == [1, 2]


async def test_an_application_belongs_to_one_event_loop_at_a_time(app: Holdfast) -> None:
    async def elsewhere(use: Callable[[], Any]) -> None:
        await use()

    async with app:
        for use in (app.stats, app.__aenter__):
            with pytest.raises(NotOpen, match="another event loop"):
                await asyncio.to_thread(asyncio.run, elsewhere(use))
        assert (await app.stats()).queued == 0


async def test_a_store_that_cannot_be_opened_leaves_the_application_closed(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = app.store.connect

    async def fail(namespace: str) -> Any:
        raise ConnectionError(namespace)

    monkeypatch.setattr(app.store, "connect", fail)
    with pytest.raises(ConnectionError):
        async with app:
            raise AssertionError("opened")
    monkeypatch.setattr(app.store, "connect", connect)
    async with app:
        assert (await app.stats()).queued == 0


async def test_the_store_is_closed_with_the_last_who_uses_it(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    monkeypatch.setattr(app.store, "close", close)
    async with app:
        await asyncio.to_thread(app.sync.stats)
    assert closed == []
    await asyncio.to_thread(app.sync.close)
    assert closed == ["closed"]


async def test_a_store_without_transactions_cannot_be_joined(app: Holdfast) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    with pytest.raises(ConfigurationError, match="store: this store has no transactions"):
        await add.enqueue_in(object(), 1)
    with pytest.raises(ConfigurationError, match="store: this store has no transactions"):
        add.enqueue_in_sync(object(), 1)


class Ledger:
    """Stands in for a store's transactions: notes what was added, on which connection."""

    def __init__(self) -> None:
        self.added: list[tuple[object, str, NewJob]] = []
        self.conflict: str | None = None

    def add_in_sync(self, connection: object, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        self.added += [(connection, namespace, job) for job in jobs]
        return [Added(record=record_of(job), created=True, conflict=self.conflict) for job in jobs]

    async def add_in(self, connection: object, namespace: str, jobs: Sequence[NewJob]) -> list[Added]:
        return self.add_in_sync(connection, namespace, jobs)


async def test_a_job_joins_the_callers_transaction(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    ledger = Ledger()
    monkeypatch.setattr(app.store, "transactions", ledger)
    connections = [object(), object()]
    jobs = [
        await add.using(queue="q").enqueue_in(connections[0], 1),
        add.enqueue_in_sync(connections[1], a=2),
    ]
    assert [(connection, namespace) for connection, namespace, _ in ledger.added] == [
        (connection, "default") for connection in connections
    ]
    assert [(job.id, job.queue, job.payload) for _, _, job in ledger.added] == [
        (jobs[0].id, "q", b'{"a":1}'),
        (jobs[1].id, "default", b'{"a":2}'),
    ]
    with pytest.raises(NotOpen):
        await jobs[0].result()
    ledger.conflict = "key"
    with pytest.raises(KeyConflict):
        await add.using(key="k").enqueue_in(connections[0], 1)


def test_a_worker_serves_the_queues_of_the_tasks_unless_told(app: Holdfast) -> None:
    @app.task(queue="slow")
    async def add(a: int) -> int:
        return a

    assert app.worker().record.queues == ("default", "slow")
    worker = app.worker(["only"], concurrency=3)
    assert (worker.record.queues, worker.record.concurrency) == (("only",), 3)
    with pytest.raises(ConfigurationError, match=r"queues: give a list, for instance \['slow'\]"):
        app.worker("slow")
    with pytest.raises(InvalidJob, match="queues"):
        app.worker(["a b"])
    with pytest.raises(ConfigurationError, match="concurrency"):
        app.worker(concurrency=0)


async def test_namespaces_do_not_see_each_other() -> None:
    apps = [Holdfast("memory://shared-by-two", namespace=name) for name in ("one", "two")]
    async with apps[0], apps[1]:
        for app in apps:

            @app.task
            async def add(a: int) -> int:
                return a

            await add.enqueue(1)
        jobs = [await app.find() for app in apps]
        assert [len(page) for page in jobs] == [1, 1]
        assert await apps[0].get(jobs[1][0].id) is None

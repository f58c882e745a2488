"""Whole applications with encryption, on every store."""

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Event, Holdfast, IdConflict, KeyConflict, Secret, State, Undecodable, every
from holdfast.engine.ids import new_id
from holdfast.model.records import NewJob, Query
from holdfast.model.scheduling import ScheduleWrite
from holdfast.model.sealed import Kind, header, sealed_with
from holdfast.stores import open_store
from tests.sealed import tasks
from tests.sealed.keys import CANARY, NEW, NEW_ID, OLD, OLD_ID

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    fixtures = {"postgres": "postgres_database", "redis": "redis_url"}
    found: str = request.getfixturevalue(fixtures[request.param])
    return found


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@asynccontextmanager
async def opened(app: Holdfast, url: str) -> AsyncGenerator[Holdfast]:
    store = open_store(url)
    if store.migrations is not None:
        await store.migrations.apply()
    await store.close()
    async with app.configured(store=url):
        yield app


class Shop:
    """An application with these keys."""

    def __init__(self, keys: str | None, **settings: Any) -> None:
        self.app = Holdfast(encryption_keys=keys, leader_candidate=False, poll_seconds=0.05, **settings)

        @self.app.task
        async def charge(card: str) -> str:
            return card

        self.charge = charge

    async def drain(self) -> None:
        assert await self.app.worker().run(until_idle=True) == 0


async def raw(url: str) -> tuple[list[bytes], list[bytes], bytes]:
    """Payloads and results as they are stored; and all that is stored, as far as it can be had."""
    store = open_store(url)
    session = await store.connect("default")
    records = await session.jobs.find(Query(limit=1_000))
    page = await session.events.read(0, 100)
    schedules = (await session.schedules.list("", 100)).records
    definitions = [record.definition for record in schedules]
    await session.close()
    await store.close()
    data = [event.data for event in page.records]
    payloads = [record.payload for record in records] + data
    results = [record.result for record in records if record.result]
    told = repr([records, page, schedules]).encode()
    files = [path.read_bytes() for path in Path(url.removeprefix("sqlite:///")).parent.glob("jobs.db*")]
    return payloads, results, b"\n".join([told, *payloads, *results, *definitions, *files])


def assert_hidden(dump: bytes) -> None:
    """No form of the secret is there, nor the base64 of it, wherever that may begin."""
    shifted = [b64encode(b"x" * shift + CANARY.encode())[4:-4] for shift in range(3)]
    assert not [form for form in (CANARY.encode(), *shifted) if form in dump]


async def test_all_that_handlers_are_given_and_give_is_encrypted_wherever_they_run(url: str) -> None:
    tasks.seen.clear()
    card = Secret(CANARY)
    async with opened(tasks.app, url) as app:
        jobs: list[Any] = [
            await tasks.charge.enqueue(card, "a note"),
            await tasks.charge_in_thread.enqueue(card),
            await tasks.charge_in_process.enqueue(card),
        ]
        async with app.batch(tasks.charge.call(card, "end")) as batch:
            jobs += await batch.add(tasks.charge.call(card))
        await app.emit(Event(topic="paid", type="Paid", data={"card": card}))
        refused = await tasks.refuse.enqueue(card)
        assert await app.worker().run(until_idle=True) == 0
        results = [await job.result(5) for job in jobs]
        assert results == [Secret(f"{CANARY}/a note"), CANARY, CANARY, Secret(f"{CANARY}/")]
        assert (await app.get(batch.id) or jobs[0]).state is State.SUCCESS
        [child] = await app.find(tag="child")
        assert await child.result(5) == Secret(f"{CANARY}/")
        assert tasks.seen == [CANARY, CANARY]
        failed = await app.get(refused.id)
        assert failed is not None
        assert failed.reason == "ValueError: *** Secret(***) [Secret(***)] ***"
    payloads, stored, dump = await raw(url)
    assert len(payloads) >= 9
    assert {sealed_with(each) for each in payloads + stored} == {NEW_ID}
    assert_hidden(dump)


async def test_the_secret_would_be_found(file: str) -> None:
    shop = Shop(None)
    async with opened(shop.app, file) as app:
        await app.schedules.put("nightly", every(hours=1), shop.charge.call(CANARY))
    with pytest.raises(AssertionError):
        assert_hidden((await raw(file))[2])


async def test_a_repeat_finds_its_job_and_other_work_a_conflict_also_after_a_change_of_keys(url: str) -> None:
    before, after = Shop(OLD), Shop(f"{NEW} {OLD}")
    given = "00000000-0000-7000-8000-0000000000ab"
    async with opened(before.app, url):
        keyed = await before.charge.using(key="order-1").enqueue("4111")
        await before.charge.using(id=given).enqueue("4111")
        assert (await before.charge.using(key="order-1").enqueue("4111")).id == keyed.id
    async with opened(after.app, url):
        assert (await after.charge.using(key="order-1").enqueue("4111")).id == keyed.id
        assert (await after.charge.using(id=given).enqueue("4111")).id == given
        [found] = await after.app.enqueue_many([after.charge.using(key="order-1").call("4111")])
        assert found.id == keyed.id
        with pytest.raises(KeyConflict):
            await after.charge.using(key="order-1").enqueue("other")
        with pytest.raises(IdConflict):
            await after.charge.using(id=given).enqueue("other")
        with pytest.raises(IdConflict):
            await after.charge.using(id=given, queue="other").enqueue("4111")
        await after.drain()
        assert await keyed_result(after, keyed.id) == "4111"


async def keyed_result(shop: Shop, job_id: str) -> object:
    job = await shop.app.get(job_id)
    assert job is not None
    return await job.result(5)


@pytest.mark.parametrize("keys", [NEW, None], ids=["other key", "no key"])
async def test_a_job_that_cannot_be_decrypted_is_a_dead_letter_and_the_worker_goes_on(
    file: str, keys: str | None
) -> None:
    old, new = Shop(OLD), Shop(keys)
    async with opened(old.app, file):
        lost = await old.charge.enqueue("4111")
    async with opened(new.app, file):
        good = await new.charge.enqueue("5555")
        await new.drain()
        assert await good.result(5) == "5555"
        dead = await new.app.get(lost.id)
        assert dead is not None
        assert dead.state is State.DLQ
        assert dead.reason == (
            f"undecodable: arguments: encrypted with key {OLD_ID}, which this process does not have"
        )
        contents = await new.app.contents(lost.id)
        assert contents is not None
        assert contents.arguments == f"encrypted with key {OLD_ID}"
    both = Shop(f"{OLD} {NEW} plain")
    async with opened(both.app, file):
        await both.app.replay(lost.id)
        await both.drain()
        assert await keyed_result(both, lost.id) == "4111"


@pytest.mark.parametrize(
    "headers", [b'{"\xff":1,"firing":{}}', b'{"firing":' + b"[" * 100_000], ids=["no text", "deep"]
)
async def test_headers_that_cannot_be_read_cost_their_job_alone(file: str, headers: bytes) -> None:
    shop = Shop(NEW)
    async with opened(shop.app, file):
        store = open_store(file)
        session = await store.connect("default")
        payload = header(Kind.TEMPLATE, NEW_ID) + bytes(32)
        await session.jobs.add(
            [
                NewJob(
                    id=new_id(),
                    task="charge",
                    queue="default",
                    payload=payload,
                    headers=headers,
                    tags=("bad",),
                )
            ]
        )
        await session.close()
        await store.close()
        good = await shop.charge.enqueue("5555")
        await shop.drain()
        assert await good.result(5) == "5555"
        [bad] = await shop.app.find(tag="bad")
        assert bad.state is State.DLQ
        assert "is damaged, or was written for something else" in str(bad.reason)


async def test_one_without_the_key_cannot_have_the_result(file: str) -> None:
    shop, stranger = Shop(NEW), Shop(None)
    async with opened(shop.app, file):
        job = await shop.charge.enqueue("4111")
        await shop.drain()
    async with opened(stranger.app, file):
        with pytest.raises(Undecodable, match=f"result: encrypted with key {NEW_ID}"):
            await keyed_result(stranger, job.id)
    reader = Holdfast(encryption_keys=None)
    async with opened(reader, file):
        found = await reader.get(job.id)
        assert found is not None
        with pytest.raises(Undecodable, match=f"result: encrypted with key {NEW_ID}"):
            await found.result(5)


async def test_encryption_is_turned_on_and_off_while_jobs_wait(file: str) -> None:
    stages = [None, f"plain {NEW}", f"{NEW} plain", f"plain {NEW}"]
    ids: list[str] = []
    for keys in stages:
        shop = Shop(keys)
        async with opened(shop.app, file):
            ids.append((await shop.charge.enqueue("4111")).id)
    payloads, _, _ = await raw(file)
    assert sorted(str(sealed_with(each)) for each in payloads) == sorted(["None", "None", NEW_ID, "None"])
    last = Shop(f"{NEW} plain")
    async with opened(last.app, file):
        await last.drain()
        assert [await keyed_result(last, each) for each in ids] == ["4111"] * 4
    strict = Shop(NEW)
    async with opened(strict.app, file):
        contents = await strict.app.contents(ids[0])
        assert contents is not None
        assert contents.arguments == "not encrypted; add plain to encryption_keys to accept what is not"


async def test_a_schedule_is_fired_by_one_without_keys_and_run_by_one_who_has_them(file: str) -> None:
    shop, keyless = Shop(NEW), Shop(None)
    async with opened(shop.app, file) as app:
        await app.schedules.put("nightly", every(hours=1), shop.charge.call(CANARY))
        await app.schedules.put("told", every(hours=1), Event(topic="paid", type="Paid", data=CANARY))
    async with opened(keyless.app, file) as app:
        await app.schedules.run("nightly")
        await app.schedules.run("told")
        assert {info.name for info in await app.schedules.list()} == {"nightly", "told"}
    async with opened(shop.app, file) as app:
        await shop.drain()
        [job] = await app.find()
        assert await job.result(5) == CANARY
        assert [event.data for event in await app.events.list()] == [CANARY]
        again = await app.schedules.put("nightly", every(hours=1), shop.charge.call(CANARY))
        assert again.name == "nightly"
    assert_hidden((await raw(file))[2])


@pytest.mark.parametrize(
    "definition",
    [
        b'{"fires":{"fires":"job","payload":"%s","task":7}}'
        % b64encode(header(Kind.TEMPLATE, NEW_ID) + bytes(32)),
        b'{"fires":' + b"[" * 100_000,
        b'{"fires":{"\xff":1}}',
    ],
    ids=["no name", "deep", "no text"],
)
async def test_a_schedule_that_cannot_be_read_stops_no_other(file: str, definition: bytes) -> None:
    shop = Shop(NEW)
    async with opened(shop.app, file) as app:
        await app.schedules.put("good", every(hours=1), shop.charge.call(CANARY))
        store = open_store(file)
        session = await store.connect("default")
        bad = ScheduleWrite(name="bad", version=0, mark="m", definition=definition, state=b"{}", look_at=0)
        assert await session.schedules.write([bad]) is not None
        told = await app.schedules.list()
        assert {info.name for info in told} >= {"good"}
        sealed = await app.store.connect("default")
        due = await sealed.schedules.due(10)
        assert [record.definition for record in due.records if record.name == "bad"] == [definition]
        await sealed.close()
        await session.close()
        await store.close()


async def test_encrypted_jobs_are_stored_in_the_transactions_of_others(file: str) -> None:
    shop = Shop(NEW)
    async with opened(shop.app, file) as app:
        transactions = app.store.transactions
        assert transactions is not None
        with transactions.begin_sync() as connection:
            job = shop.charge.using(key="k").enqueue_in_sync(connection, CANARY)
            assert shop.charge.using(key="k").enqueue_in_sync(connection, CANARY).id == job.id
            app.emit_in_sync(connection, Event(topic="paid", type="Paid", data=CANARY))
        await shop.drain()
        assert await keyed_result(shop, job.id) == CANARY
    assert_hidden((await raw(file))[2])


async def test_an_application_under_test_is_encrypted_as_well() -> None:
    async with tasks.app.testing() as testing:
        await tasks.charge.enqueue(Secret(CANARY))
        testing.assert_enqueued(tasks.charge, arguments={"card": Secret(CANARY)})
        testing.advance(7200)
        await testing.drain()
        done = [job.task for job in testing.jobs() if job.state is State.SUCCESS]
        assert done == ["charge", "recur"]
        with pytest.raises(AssertionError) as caught:
            testing.assert_enqueued(tasks.charge, arguments={"card": Secret("x")})
        assert CANARY not in str(caught.value)


async def test_events_that_cannot_be_decrypted_are_not_relayed(file: str) -> None:
    shop, keyless = Shop(NEW), Shop(None)
    async with opened(shop.app, file) as app:
        await app.emit(Event(topic="paid", type="Paid", data=CANARY))
    relayed: list[bytes] = []

    async def relay(events: Any) -> None:
        relayed.extend(event.data for event in events)

    keyless.app.relay(["paid"], relay)
    async with opened(keyless.app, file) as app:
        await keyless.drain()
        [group] = await app.events.groups()
        assert relayed == []
        assert f"encrypted with key {NEW_ID}" in group.waiting[0].reason
    shop.app.relay(["paid"], relay, group="other")
    async with opened(shop.app, file):
        await shop.drain()
        assert relayed == [b'"' + CANARY.encode() + b'"']

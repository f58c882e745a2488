"""Who may append, read and remove events, and who is woken by them."""

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.model.records import Verdict
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance.case import LONG, ended, new_job, wanted, worker_record
from holdfast.testing.conformance.events import new_event
from holdfast.testing.conformance.idle import Idle
from holdfast.testing.conformance.schedules import write
from tests.postgres.test_locks import connection
from tests.postgres.test_roles import an_estate
from tests.postgres.test_wakeups import SOON, listening, opened


@pytest.mark.parametrize("options", ["", "?schema=public&prefix=hf_"])
async def test_a_producer_appends_and_a_worker_reads_tells_and_removes(
    options: str, postgres_database: str
) -> None:
    async with an_estate(postgres_database, options) as estate:
        store = PostgresStore.from_url(estate.store_url("producer"))
        producer = await store.connect("shop")
        worker = await PostgresStore.from_url(estate.store_url("worker")).connect("shop")
        try:
            await producer.events.append([new_event()])
            await producer.events.append([new_event()], [new_job()])
            async with estate.connection("producer") as own:
                for isolation in ("read_committed", "repeatable_read", "serializable"):
                    async with own.transaction(isolation=isolation):
                        await store.transactions.append_in(own, "shop", [new_event()])
            calls: list[Callable[[], Any]] = [
                lambda: producer.events.read(0, 9),
                producer.events.last,
                lambda: producer.events.prune(0, {}, 9),
            ]
            for call in calls:
                with pytest.raises(ConfigurationError, match="permission denied"):
                    await call()
            await worker.fleet.register(worker_record("ann"), LONG)
            ann = Idle(worker, "ann")
            [job] = (await ann.tick(wanted())).claimed
            await ann.tick(moves=[ended(job, events=(new_event(),))])
            ann.stop()
            assert await worker.schedules.write([write(events=(new_event(),))]) == [Verdict.ACCEPTED]
            assert len((await worker.events.read(0, 9)).records) == 7
            assert await worker.events.prune(-LONG, {}, 9) == 7
        finally:
            await producer.close()
            await worker.close()
            await store.close()


async def test_a_producer_reaches_no_event_by_another_way(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate:
        await estate.refused(
            "producer",
            "SELECT FROM holdfast.outbox",
            "SELECT FROM holdfast.event",
            "INSERT INTO holdfast.outbox (ns, at, id, topic, type, data) VALUES (1, 0, '', '', '', '')",
            "INSERT INTO holdfast.event SELECT * FROM holdfast.event",
            "UPDATE holdfast.event_head SET last = 0",
            "SELECT holdfast.sequence_v1(1, 1)",
            "SELECT holdfast.has_ended_v1(1, gen_random_uuid(), 1)",
            "SELECT holdfast.read_events_v1(1, 0, 1, NULL, NULL, 1)",
            "SELECT holdfast.prune_events_v1(1, 0, '{}', '{}', 1)",
            "SELECT holdfast.write_in_v1(1, '{}', NULL)",
            "SELECT holdfast.move_in_v2(1, '', '{}', NULL)",
        )


async def test_events_of_somebodys_transaction_wake_listeners_when_it_commits(postgres_database: str) -> None:
    async with opened(postgres_database) as session, connection(postgres_database) as own:
        transactions = PostgresStore.from_url(f"{postgres_database}?schema=wakeups").transactions
        woken = Event()
        stop = session.wakeups.listen(woken.set)
        await listening(postgres_database)
        assert await asyncio.to_thread(woken.wait, SOON), "once it hears"
        woken.clear()
        async with own.transaction():
            await transactions.append_in(own, "n", [new_event()])
            assert not woken.is_set()
        assert await asyncio.to_thread(woken.wait, SOON)
        stop()


async def test_a_producer_cannot_say_when_an_event_was(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate:
        worker = await PostgresStore.from_url(estate.store_url("worker")).connect("shop")
        async with estate.connection("producer") as own:
            await own.execute(
                "SELECT holdfast.append_v1(n.id, $1, '{i}', '{orders}', '{t}', '{NULL}', ARRAY['1'::bytea], "
                "ARRAY[NULL::bytea], NULL) FROM holdfast.namespace AS n WHERE n.name = 'shop'",
                2**63 - 1,
            )
        [event] = (await worker.events.read(0, 9)).records
        assert event.at < 2**62
        await worker.close()

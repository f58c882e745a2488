"""What becomes of errors, cut connections and silence, with real drivers."""

import asyncio
import logging
import threading
import time

import pytest

from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.store.circuit import CircuitState, circuits
from holdfast.stores import open_store
from holdfast.stores.mssql import mssql_python_driver
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.faults import is_taken
from holdfast.stores.mssql.seat import TRIES
from tests.mssql.tds_peer import Answer, Drop, Failure, Held, Peer, Rows, Silence
from tests.mssql.test_wire import opened, url

DEADLOCK = Failure(
    1205,
    "Transaction (Process ID 52) was deadlocked on lock resources with another process and has been chosen "
    "as the deadlock victim. Rerun the transaction.",
    13,
)
AWAY = Failure(40613, "Database 'jobs' on server 'cris' is not currently available. Please retry later.", 17)
BUSY = Failure(40501, "The service is currently busy. Retry the request after 10 seconds. Code: 1", 20)
REPLACED = Failure(
    40197, "The service has encountered an error processing your request. Please try again.", 20
)
LOGIN = Failure(18456, "Login failed for user 'ann'.", 14)
NO_DATABASE = Failure(4060, 'Cannot open database "jobs" requested by the login. The login failed.', 11)

SAID: list[tuple[Answer, type[HoldfastError]]] = [
    ([DEADLOCK] * 1, StoreUnavailable),
    (Failure(1222, "Lock request time out period exceeded."), StoreUnavailable),
    (AWAY, StoreUnavailable),
    (BUSY, StoreUnavailable),
    (REPLACED, OutcomeUnknown),
    (Failure(9002, "The transaction log for database 'jobs' is full due to 'LOG_BACKUP'.", 17), StoreFull),
    (Failure(1105, "Could not allocate space for object 'a' in database 'jobs' because ...", 17), StoreFull),
    (Failure(40544, "The database 'jobs' has reached its size quota.", 17), StoreFull),
    (Failure(208, "Invalid object name 'holdfast.job'."), SchemaMismatch),
    (Failure(2812, "Could not find stored procedure 'holdfast.tick_v1'."), SchemaMismatch),
    (Failure(229, "The EXECUTE permission was denied on the object 'tick_v1'.", 14), ConfigurationError),
    (Failure(2627, "Violation of PRIMARY KEY constraint 'a'. Cannot insert duplicate key.", 14), StoreError),
    (Failure(50001, "one of ours"), StoreError),
    ([Rows(["a"], [(1,)]), Failure(8134, "Divide by zero error encountered.")], StoreError),
    (Drop(), OutcomeUnknown),
    (Drop(Rows(["a"], [("long" * 9000,)])), OutcomeUnknown),
    (Silence(heeds=True), OutcomeUnknown),
]


@pytest.mark.parametrize(("answer", "kind"), SAID, ids=lambda each: getattr(each, "__name__", ""))
async def test_what_a_write_ends_with(
    scheme: str, tds: Peer, answer: Answer, kind: type[HoldfastError]
) -> None:
    tds.on("EXEC tick", *[answer] * (TRIES if isinstance(answer, list) and answer == [DEADLOCK] else 1))
    async with opened(parse(url(scheme, tds, "timeout=1"))) as database:
        await database.execute("SELECT 1", writes=False)
        with pytest.raises(HoldfastError) as caught:
            await database.execute("EXEC tick @a = ?", "x", writes=True)
        assert type(caught.value) is kind
        assert "s3cr3t" not in f"{caught.value!r} {caught.value.__cause__!r}"
        # And whatever it was, the next call finds a connection that works.
        tds.on("SELECT 2", Rows(["a"], [(2,)]))
        assert await database.value("SELECT 2") == 2


@pytest.mark.parametrize(
    "answer", [Drop(), Drop(Rows(["a"], [("long" * 9000,)])), Silence(heeds=True), REPLACED]
)
async def test_a_read_that_is_cut_off_has_written_nothing(scheme: str, tds: Peer, answer: Answer) -> None:
    tds.on("SELECT here", answer)
    async with opened(parse(url(scheme, tds, "timeout=1"))) as database:
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await database.execute("SELECT here", writes=False)


@pytest.mark.parametrize("heeds", [True, False])
async def test_silence_is_waited_for_no_longer_than_said_and_ends_the_connection(
    scheme: str, tds: Peer, heeds: bool
) -> None:
    tds.on("EXEC hang", Silence(heeds))
    async with opened(parse(url(scheme, tds, "timeout=1"))) as database:
        await database.execute("SELECT 1", writes=False)
        began = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await database.execute("EXEC hang @a = ?", 1, writes=True)
        assert time.monotonic() - began < 4
        await asyncio.to_thread(tds.wait_for_none)
        await database.execute("SELECT 1", writes=True)


async def test_a_deadlock_is_done_again_at_once(scheme: str, tds: Peer) -> None:
    tds.on("EXEC tick", DEADLOCK, DEADLOCK, Rows(["a"], [(7,)]))
    async with opened(parse(url(scheme, tds))) as database:
        assert await database.value("EXEC tick @a = ?", 1) == 7
    assert len(tds.heard("EXEC tick")) == 3
    assert len(tds.heard("ROLLBACK")) == 2
    assert len(tds.logins) == 1


async def test_an_id_that_is_taken_is_told_apart(scheme: str, tds: Peer) -> None:
    tds.on(
        "INSERT",
        Failure(2601, "Cannot insert duplicate key row in object 'a' with unique index 'b'.", 14),
        Failure(515, "Cannot insert the value NULL into column 'a'."),
    )
    async with opened(parse(url(scheme, tds))) as database:
        found = []
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                await database.execute("INSERT a", writes=True)
            found.append(is_taken(caught.value))
    assert found == [True, False]


async def test_a_refused_sign_in_is_a_wrong_setting(scheme: str, tds: Peer) -> None:
    tds.refuse(LOGIN)
    async with opened(parse(url(scheme, tds))) as database:
        with pytest.raises(ConfigurationError, match=r"Login failed for user 'ann'.* \(18456\)") as caught:
            await database.execute("SELECT 1", writes=True)
        assert caught.value.setting == "store"
        assert "s3cr3t" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_no_password_is_logged_at_any_level(
    scheme: str, tds: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by us nor by a driver, whatever becomes of the sign-in and of the connection."""
    tds.on("SELECT 1", DEADLOCK, Drop())
    address = parse(url(scheme, tds))
    with caplog.at_level(logging.DEBUG):
        async with opened(address) as database:
            with pytest.raises(StoreUnavailable):
                await database.execute("SELECT 1", writes=False)
        tds.refuse(LOGIN)
        async with opened(address) as database:
            with pytest.raises(ConfigurationError):
                await database.execute("SELECT 1", writes=False)
    assert "ann" in {login.user for login in tds.logins}
    assert "s3cr3t" not in caplog.text
    assert "s3cr3t" not in str([record.__dict__ for record in caplog.records])


async def test_a_refused_sign_in_that_has_worked_before_may_work_again(scheme: str, tds: Peer) -> None:
    """A database that moves to another server refuses for a while, and one driver tells no more than that."""
    async with opened(parse(url(scheme, tds))) as database:
        await database.execute("SELECT 1", writes=False)
        tds.on("SELECT 2", Drop())
        tds.refuse([NO_DATABASE, LOGIN], LOGIN)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="nothing was written"):
                await database.execute("SELECT 2", writes=False)
        await database.execute("SELECT 2", writes=False)


async def test_a_database_that_cannot_be_opened_is_named(tds: Peer) -> None:
    tds.refuse([NO_DATABASE, LOGIN])
    async with opened(parse(url("mssql+pytds", tds))) as database:
        with pytest.raises(StoreUnavailable, match=r"Cannot open database.*\(4060\); is the name .* right\?"):
            await database.execute("SELECT 1", writes=True)


@pytest.mark.parametrize("answer", [AWAY, Drop()])
async def test_a_sign_in_that_may_work_later_has_written_nothing(
    scheme: str, tds: Peer, answer: Answer
) -> None:
    tds.refuse(answer)
    async with opened(parse(url(scheme, tds))) as database:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await database.execute("EXEC tick @a = ?", 1, writes=True)
        assert time.monotonic() - began < 3
        assert await database.execute("EXEC tick @a = ?", 1, writes=True) == []


async def test_where_nobody_listens_nothing_was_written_and_that_is_told_at_once(
    scheme: str, tds: Peer
) -> None:
    tds.stop_listening()
    async with opened(parse(url(scheme, tds))) as database:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="refused; nothing was written"):
            await database.execute("EXEC tick", writes=True)
        assert time.monotonic() - began < 2


async def test_a_server_that_says_nothing_from_the_start_is_given_up(scheme: str, tds: Peer) -> None:
    tds.refuse(Silence())
    async with opened(parse(url(scheme, tds, "timeout=1"))) as database:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await database.execute("EXEC tick", writes=False)
        assert time.monotonic() - began < 4


async def test_connections_that_were_cut_while_they_rested_are_replaced(
    scheme: str, tds: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mssql_python_driver, "_RESTED", 0)
    async with opened(parse(url(scheme, tds))) as database:
        gate = threading.Event()
        tds.on("SELECT slow", *[Held(gate, Rows(["a"], [(1,)]))] * 3)
        slow = [asyncio.create_task(database.execute("SELECT slow", writes=False)) for _ in range(3)]
        await asyncio.to_thread(tds.wait_for, "SELECT slow", 3)
        gate.set()
        await asyncio.gather(*slow)
        assert len(tds.logins) == 3
        tds.drop_all()
        await asyncio.to_thread(tds.wait_for_none)
        for _ in range(3):
            await database.execute("EXEC tick @a = ?", 1, writes=True)


async def test_one_that_was_cut_off_makes_the_others_be_checked(scheme: str, tds: Peer) -> None:
    gate = threading.Event()
    tds.on("SELECT slow", Held(gate, Rows(["a"], [(1,)])))
    async with opened(parse(url(scheme, tds))) as database:
        slow = asyncio.create_task(database.execute("SELECT slow", writes=False))
        await asyncio.to_thread(tds.wait_for, "SELECT slow")
        tds.on("EXEC cut", Drop())
        with pytest.raises(OutcomeUnknown):
            await database.execute("EXEC cut", writes=True)
        gate.set()
        await slow
        tds.drop_all()
        await asyncio.to_thread(tds.wait_for_none)
        await database.execute("EXEC tick", writes=True)


async def test_a_commit_whose_answer_is_lost_is_unknown(scheme: str, tds: Peer) -> None:
    tds.on("COMMIT TRANSACTION", Drop())
    async with opened(parse(url(scheme, tds))) as database:
        with pytest.raises(OutcomeUnknown):
            async with database.begin() as transaction:
                await transaction.execute("UPDATE x")


@pytest.mark.parametrize("answer", [Drop(), DEADLOCK, BUSY])
async def test_a_transaction_that_is_cut_off_before_its_commit_has_written_nothing(
    scheme: str, tds: Peer, answer: Answer
) -> None:
    tds.on("UPDATE x", answer)
    async with opened(parse(url(scheme, tds))) as database:
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            async with database.begin() as transaction:
                await transaction.execute("UPDATE x")
        assert not tds.heard("COMMIT TRANSACTION")
        async with database.begin() as transaction:
            await transaction.execute("UPDATE x")
        assert len(tds.heard("COMMIT TRANSACTION")) == 1


async def test_a_cancelled_call_is_done_whole_and_its_connection_used_again(scheme: str, tds: Peer) -> None:
    gate = threading.Event()
    tds.on("EXEC tick", Held(gate, Rows(["a"], [(1,)])))
    async with opened(parse(url(scheme, tds))) as database:
        call = asyncio.create_task(database.execute("EXEC tick", writes=True))
        await asyncio.to_thread(tds.wait_for, "EXEC tick")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gate.set()
        [seat] = database._calls._all
        assert seat.answer is not None
        await asyncio.wait({seat.answer})
        await asyncio.sleep(0)
        await database.execute("SELECT 1", writes=False)
        assert len(tds.logins) == 1


async def test_a_cancelled_transaction_is_rolled_back_or_ends_with_its_connection(
    scheme: str, tds: Peer
) -> None:
    tds.on("UPDATE x", Silence())
    async with opened(parse(url(scheme, tds))) as database:

        async def handler() -> None:
            async with database.begin() as transaction:
                await transaction.execute("UPDATE x")

        running = asyncio.create_task(handler())
        await asyncio.to_thread(tds.wait_for, "UPDATE x")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.to_thread(tds.wait_for_none)
        assert not tds.heard("COMMIT TRANSACTION")


async def test_what_passes_is_tried_again_by_a_store_that_is_opened_by_its_url(
    scheme: str, tds: Peer
) -> None:
    tds.refuse(AWAY)
    tds.on("OBJECT_ID", BUSY, Drop(), DEADLOCK, REPLACED, Rows(["id"], [(None,)]))
    store = open_store(url(scheme, tds))
    with pytest.raises(SchemaMismatch, match="0001_tables"):
        await store.connect("default")
    assert len(tds.heard("OBJECT_ID")) == 5
    # The deadlock is done again on the spot. One fault more in a row, and it might be a long outage.
    [circuit] = circuits(store).values()
    report = circuit.report()
    assert (report.state, report.faults, report.retries, report.opened) == (CircuitState.CLOSED, 4, 4, 0)
    await store.close()

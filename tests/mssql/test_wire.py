"""What real drivers send and hear: results, parameters, settings, transactions, tokens."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from holdfast.model.errors import ConfigurationError, StoreError, StoreUnavailable
from holdfast.stores.mssql.address import Address, parse
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.credential import Credential
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.drivers import driver_named
from tests.mssql.conftest import Encrypted
from tests.mssql.tds_peer import Drop, Failure, Peer, Rows

TOKEN = "ey-a-token-of-some-length" * 40


def url(scheme: str, tds: Peer, query: str = "timeout=5") -> str:
    return f"{scheme}://ann:s3cr3t@127.0.0.1:{tds.port}/jobs?{query}"


@asynccontextmanager
async def opened(address: Address, credential: Credential | None = None) -> AsyncIterator[Database]:
    database = Database(address, Connecting(address, driver_named(address.driver), credential))
    try:
        yield database
    finally:
        await database.close()


async def test_every_type_and_every_result_set_comes_back(scheme: str, tds: Peer) -> None:
    long = "é\U0001f600" * 9000
    tds.on(
        "two sets",
        [
            Rows(["a", "b", "c"], [(2**60, long, b"\x00\xff" * 9000), (None, None, None)]),
            Rows(["d"], []),
            Rows(["e"], [("",)]),
        ],
    )
    async with opened(parse(url(scheme, tds))) as database:
        assert await database.execute("SELECT two sets", writes=False) == [
            [(2**60, long, b"\x00\xff" * 9000), (None, None, None)],
            [],
            [("",)],
        ]


async def test_a_batch_without_rows_gives_no_result_set(scheme: str, tds: Peer) -> None:
    async with opened(parse(url(scheme, tds))) as database:
        assert await database.execute("UPDATE x SET y = ?", 1, writes=True) == []


@pytest.mark.parametrize("size", [1, 3000, 50_000])
async def test_parameters_arrive_with_one_request_whatever_their_size(
    scheme: str, tds: Peer, size: int
) -> None:
    values = ("é" * size, "", 7, -(2**62), 1.5, True, b"\x00" * size, b"")
    sql = "EXEC p @a=?, @b=?, @c=?, @d=?, @e=?, @f=?, @g=?, @h=?"
    async with opened(parse(url(scheme, tds))) as database:
        await database.execute("SELECT 1", writes=False)
        before = len(tds.asked)
        for _ in range(3):
            await database.execute(sql, *values, writes=True)
        asked = tds.asked[before:]
    assert len(asked) == 3
    for each in asked:
        assert each.values == values
        assert [kind.split("(")[0] for kind in each.kinds] == [
            "nvarchar",
            "nvarchar",
            "bigint" if scheme == "mssql" else "int",
            "bigint",
            "float",
            "bit",
            "varbinary",
            "varbinary",
        ]


async def test_none_is_a_null_of_no_type_and_marks_in_texts_stay(scheme: str, tds: Peer) -> None:
    async with opened(parse(url(scheme, tds))) as database:
        await database.execute("EXEC q @a = ?, @b = '?%s%', @c = ?, @d = [a?] -- ?", None, 5, writes=True)
        await database.execute("EXEC r @a = ?, @b = '100%'", None, writes=True)
    [first] = tds.heard("EXEC q")
    assert first.sql == "EXEC q @a = NULL, @b = '?%s%', @c = @P1, @d = [a?] -- ?"
    assert first.values == (5,)
    [second] = tds.heard("EXEC r")
    assert second.sql == "EXEC r @a = NULL, @b = '100%'"


async def test_a_session_is_set_up_once(scheme: str, tds: Peer) -> None:
    async with opened(parse(url(scheme, tds, "timeout=8"))) as database:
        for _ in range(3):
            await database.execute("SELECT 1", writes=False)
        async with database.begin():
            pass
    calls, transactions = tds.heard("XACT_ABORT ON")
    assert "SET NOCOUNT ON" in calls.sql
    assert "QUOTED_IDENTIFIER ON" in calls.sql
    assert "LEVEL READ COMMITTED" in calls.sql
    assert "LOCK_TIMEOUT 6000" in calls.sql
    assert "LOCK_TIMEOUT -1" in transactions.sql
    assert {(login.user, login.password, login.database, login.token) for login in tds.logins} == {
        ("ann", "s3cr3t", "jobs", None)
    }


async def test_a_transaction_commits_when_left(scheme: str, tds: Peer) -> None:
    tds.on("SELECT", Rows(["a"], [(1,)]))
    async with opened(parse(url(scheme, tds))) as database:
        async with database.begin() as transaction:
            assert await transaction.execute("SELECT ?", 1) == [[(1,)]]
            raw = await transaction.run(lambda connection: connection.raw)
            assert hasattr(raw, "cursor")
        assert [asked.sql for asked in tds.asked[1:]] == [
            "BEGIN TRANSACTION",
            "SELECT @P1",
            "COMMIT TRANSACTION",
        ]


async def test_a_transaction_rolls_back_on_an_exception(scheme: str, tds: Peer) -> None:
    async def handler(database: Database) -> None:
        async with database.begin() as transaction:
            await transaction.execute("DELETE FROM x")
            raise KeyError

    async with opened(parse(url(scheme, tds))) as database:
        with pytest.raises(KeyError):
            await handler(database)
        assert tds.asked[-1].sql == "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"
        assert not tds.heard("COMMIT TRANSACTION")


async def test_nothing_is_committed_after_an_error_that_was_caught(scheme: str, tds: Peer) -> None:
    tds.on("INSERT", Failure(2627, "Violation of PRIMARY KEY constraint 'a'.", 14))

    async def handler(database: Database) -> None:
        async with database.begin() as transaction:
            with pytest.raises(StoreError, match="PRIMARY KEY"):
                await transaction.execute("INSERT x")
            with pytest.raises(StoreError, match="nothing of it was written"):
                await transaction.execute("UPDATE y")

    async with opened(parse(url(scheme, tds))) as database:
        with pytest.raises(StoreError, match="nothing of it was written"):
            await handler(database)
        assert not tds.heard("COMMIT TRANSACTION")
        assert not tds.heard("UPDATE y")


@dataclass(frozen=True)
class Given:
    token: str
    expires_on: int


class Stub:
    """A source of tokens."""

    def __init__(self, lives: float = 3600) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._lives = lives

    def get_token(self, *scopes: str) -> Given:
        self.asked.append(scopes)
        return Given(TOKEN, int(time.time() + self._lives))


def signed(scheme: str, tds: Peer) -> Address:
    trust = "&trust_server_certificate=on" if scheme == "mssql" else ""
    return parse(f"{scheme}://localhost:{tds.port}/jobs?timeout=5&encrypt=on{trust}")


async def test_a_token_signs_in_over_tls(
    scheme: str, encrypted_tds: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted_tds.authority))
    tds, source = encrypted_tds.peer, Stub()
    tds.on("SELECT", Rows(["a"], [("long" * 9000,)]))
    address = signed(scheme, tds)
    async with opened(address, Credential(address, source)) as database:
        assert await database.value("SELECT ?", "x" * 20_000) == "long" * 9000
    [login] = tds.logins
    assert login.token == TOKEN
    assert (login.user, login.password) == ("", "")
    assert source.asked == [("https://database.windows.net/.default",)]


async def test_a_connection_whose_token_has_ended_is_renewed_when_it_rests(
    scheme: str, encrypted_tds: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted_tds.authority))
    tds, source = encrypted_tds.peer, Stub(lives=0)
    address = signed(scheme, tds)
    async with opened(address, Credential(address, source)) as database:
        for _ in range(3):
            await database.execute("SELECT 1", writes=True)
    assert len(tds.logins) == 3
    assert len(source.asked) == 3


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_no_token_goes_to_a_server_with_a_strange_certificate(
    scheme: str, host: str, encrypted_tds: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither if nobody vouches for it, nor if it is another's."""
    if host != "localhost":
        monkeypatch.setenv("SSL_CERT_FILE", str(encrypted_tds.authority))
    address = parse(f"{scheme}://{host}:{encrypted_tds.peer.port}/jobs?timeout=5&encrypt=on")
    async with opened(address, Credential(address, Stub())) as database:
        with pytest.raises(
            ConfigurationError, match=r"(?i)certificate.*; use the host name .* SSL_CERT_FILE"
        ):
            await database.execute("SELECT 1", writes=True)
    assert encrypted_tds.peer.logins == []


async def test_a_server_without_tls_is_a_wrong_setting_and_gets_no_password(scheme: str, tds: Peer) -> None:
    async with opened(parse(url(scheme, tds, "timeout=5&encrypt=on"))) as database:
        with pytest.raises(
            ConfigurationError, match=r"not supported.*; turn TLS on .* encrypt=off"
        ) as caught:
            await database.execute("SELECT 1", writes=True)
    assert caught.value.setting == "store"
    assert tds.logins == []


async def test_a_server_that_insists_on_tls_is_a_wrong_setting_for_a_driver_that_was_told_not_to(
    encrypted_tds: Encrypted,
) -> None:
    async with opened(parse(url("mssql+pytds", encrypted_tds.peer))) as database:
        with pytest.raises(ConfigurationError, match=r"required by server.*; say encrypt=on"):
            await database.execute("SELECT 1", writes=True)


async def test_a_certificate_that_is_refused_after_others_were_taken_is_an_outage(
    scheme: str, encrypted_tds: Encrypted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tds = encrypted_tds.peer
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted_tds.authority))
    address = parse(f"{scheme}://ann:s3cr3t@localhost:{tds.port}/jobs?timeout=5&encrypt=on")
    async with opened(address) as database:
        await database.execute("SELECT 1", writes=False)
        tds.on("SELECT 2", Drop())
        with pytest.raises(StoreUnavailable):
            await database.execute("SELECT 2", writes=False)
        another = tmp_path / "another.pem"
        trustme.CA().cert_pem.write_to_path(another)
        monkeypatch.setenv("SSL_CERT_FILE", str(another))
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate.*; nothing was written"):
            await database.execute("SELECT 2", writes=False)

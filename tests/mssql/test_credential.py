"""Tokens in place of passwords."""

import logging
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from holdfast.model.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.mssql import credential as module
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.credential import MARGIN, Credential, scope, signed_in
from holdfast.stores.mssql.database import Database
from tests.mssql.fake_driver import FakeDriver

ADDRESS = parse("mssql://cris.database.windows.net/jobs")
ID = "01234567-89ab-cdef-0123-456789abcdef"


@dataclass(frozen=True)
class Given:
    token: str
    expires_on: float


class ClientAuthenticationError(Exception):
    """Named as the one of azure-core."""


class Source:
    """Gives numbered tokens that live an hour by the clock of the test, or fails."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.scopes: list[str] = []
        self.fault: Exception | None = None

    def clock(self) -> float:
        return self.now

    def get_token(self, *scopes: str) -> Given:
        self.scopes += scopes
        if self.fault is not None:
            raise self.fault
        return Given(f"token {len(self.scopes)}", self.now + 3600)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def credential(source: Source) -> Credential:
    return Credential(ADDRESS, source, source.clock)


def test_a_token_is_fetched_once_and_renewed_five_minutes_before_its_end(
    source: Source, credential: Credential
) -> None:
    assert MARGIN >= 300
    assert credential.token().text == "token 1"
    source.now += 3600 - MARGIN - 1
    assert credential.token().text == "token 1"
    source.now += 1
    assert credential.token().text == "token 2"
    assert credential.token().text == "token 2"


def test_threads_that_need_a_token_wait_for_the_same(source: Source, credential: Credential) -> None:
    tokens: list[str] = []
    threads = [threading.Thread(target=lambda: tokens.append(credential.token().text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tokens == ["token 1"] * 8


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a.database.windows.net", "https://database.windows.net/.default"),
        ("A.Database.USGovCloudAPI.net", "https://database.usgovcloudapi.net/.default"),
        ("a.database.chinacloudapi.cn.", "https://database.chinacloudapi.cn/.default"),
        ("a.database.cloudapi.de", "https://database.cloudapi.de/.default"),
        ("db.example.com", "https://database.windows.net/.default"),
    ],
)
def test_each_cloud_has_its_scope(host: str, expected: str, source: Source) -> None:
    assert scope(host) == expected
    Credential(parse(f"mssql://{host}/jobs"), source, source.clock).token()
    assert source.scopes == [expected]


def test_who_cannot_sign_in_is_told_how(source: Source, credential: Credential) -> None:
    source.fault = ClientAuthenticationError("sent: secret-of-the-client")
    with pytest.raises(ConfigurationError, match="az login") as caught:
        credential.token()
    assert "client_id=" in str(caught.value)
    assert "secret-of-the-client" not in str(caught.value)


def test_a_source_that_cannot_be_reached_may_be_reached_later(source: Source, credential: Credential) -> None:
    source.fault = OSError("no route")
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        credential.token()
    source.fault = None
    assert credential.token().text == "token 2"


def test_while_the_source_fails_the_last_token_is_used_to_its_end(
    source: Source, credential: Credential
) -> None:
    credential.token()
    source.fault = ClientAuthenticationError("away")
    source.now += 3599
    assert credential.token().text == "token 1"
    source.now += 1
    # It has worked, so it is not set up wrongly.
    with pytest.raises(StoreUnavailable):
        credential.token()


async def test_a_pooled_connection_is_replaced_before_its_token_ends(
    source: Source, credential: Credential, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_the_test = SimpleNamespace(time=source.clock, monotonic=time.monotonic)
    monkeypatch.setattr("holdfast.stores.mssql.seat.time", by_the_test)
    driver = FakeDriver()
    database = Database(ADDRESS, Connecting(ADDRESS, driver, credential))

    async def signed_in_with() -> list[str | None]:
        await database.execute("SELECT 1", writes=False)
        return driver.tokens

    assert await signed_in_with() == ["token 1"]
    source.now += 3600 - MARGIN - 1
    assert await signed_in_with() == ["token 1"]
    source.now += 1
    assert await signed_in_with() == ["token 1", "token 2"]
    assert driver.made[0].is_closed
    source.now += 3600 - MARGIN
    source.fault = ClientAuthenticationError("away")
    assert (await signed_in_with())[2:] == ["token 2"]
    source.now += MARGIN - 1
    assert (await signed_in_with())[2:] == ["token 2"], "what is signed in by the last one is not given up"
    source.fault = None
    source.now += 1
    assert (await signed_in_with())[3:] == [f"token {len(source.scopes)}"]
    await database.close()


def test_a_token_is_never_shown(credential: Credential, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = credential.token()
    assert "token 1" not in f"{token!r} {token} {credential!r} {caplog.text}"


def test_a_user_with_a_password_needs_no_credential() -> None:
    assert signed_in(parse("mssql://ann:s3cr3t@localhost/jobs")) is None


def test_no_user_is_the_default_credential_of_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    from azure import identity  # noqa: PLC0415  the test replaces what the module fetches late

    made: list[object] = []
    monkeypatch.setattr(identity, "DefaultAzureCredential", lambda: made.append("default"))
    monkeypatch.setattr(identity, "ManagedIdentityCredential", lambda *, client_id: made.append(client_id))
    assert signed_in(ADDRESS) is not None
    assert signed_in(parse(f"mssql://cris.database.windows.net/jobs?client_id={ID}")) is not None
    assert made == ["default", ID]


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "azure", None)
    with pytest.raises(ConfigurationError, match=r"azure-identity: pip install 'holdfast\[sqlserver\]'"):
        module.signed_in(ADDRESS)

"""What an mssql:// URL says, and what it may not."""

import logging

import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.stores.mssql.address import Address, parse
from holdfast.stores.mssql.database import Database

SECRET = "s3cr3t"
ID = "01234567-89ab-cdef-0123-456789abcdef"


def refusal(url: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(url)
    assert caught.value.setting == "store"
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_bare_url_has_defaults() -> None:
    assert parse("mssql://db.example.com/jobs") == Address(
        driver="mssql-python", host="db.example.com", port=1433, database="jobs"
    )


def test_every_parameter_is_taken() -> None:
    url = "mssql://localhost:1500/my%20jobs?schema=work&pool=3&timeout=2.5&encrypt=yes&trust_server_certificate=on"
    assert parse(f"{url}&client_id={ID}") == Address(
        driver="mssql-python",
        host="localhost",
        port=1500,
        database="my jobs",
        schema="work",
        pool=3,
        patience=2.5,
        encrypt=True,
        trusts_certificate=True,
        client_id=ID,
    )


@pytest.mark.parametrize(
    ("scheme", "driver"),
    [("mssql", "mssql-python"), ("mssql+mssqlpython", "mssql-python"), ("mssql+pytds", "pytds")],
)
def test_the_scheme_chooses_the_driver(scheme: str, driver: str) -> None:
    assert parse(f"{scheme}://localhost/jobs").driver == driver


def test_user_and_password_are_decoded_and_never_shown() -> None:
    address = parse(f"mssql://an%40n:{SECRET}%2F%3A@localhost/jobs")
    assert (address.user, address.password) == ("an@n", f"{SECRET}/:")
    shown = [repr(address), str(address), address.place, address.warning]
    assert not any(SECRET in each for each in shown)


def test_a_place_of_version_six_is_written_with_brackets() -> None:
    assert parse("mssql://[::1]:1500/jobs").place == "[::1]:1500/jobs"


@pytest.mark.parametrize(
    ("host", "is_encrypted"),
    [
        ("localhost", False),
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("[::1]", False),
        ("10.0.0.7", True),
        ("db.example.com", True),
        ("cris.database.windows.net", True),
        ("cris.database.usgovcloudapi.net", True),
    ],
)
def test_only_what_stays_on_the_machine_goes_unencrypted(host: str, is_encrypted: bool) -> None:
    assert parse(f"mssql://{host}/jobs").encrypt is is_encrypted


@pytest.mark.parametrize(
    "host",
    [
        "a.database.windows.net",
        "A.DATABASE.WINDOWS.NET.",
        "a.b.database.chinacloudapi.cn",
        "a.database.cloudapi.de",
    ],
)
def test_azure_takes_no_password(host: str) -> None:
    told = refusal(f"mssql://ann:{SECRET}@{host}/jobs")
    assert "leave user and password out" in told
    assert "Entra ID" in told


def test_azure_takes_none_even_if_it_is_asked_to() -> None:
    url = f"mssql://ann:{SECRET}@a.database.windows.net/jobs?password_beyond_local=on"
    assert "takes no password" in refusal(url)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "127.0.0.1", "127.8.8.8", "[::1]", "db", "DB", "db.", "sql.localhost"),
        *("10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.2", "169.254.1.1", "[::ffff:10.0.0.1]"),
        *("[fe80::1]", "[fe80::1%2]", "[fd12:3456::1]", "db.local", "db.eu.internal", "DB.LAN."),
    ],
)
def test_a_local_server_takes_a_password_with_a_warning(host: str) -> None:
    address = parse(f"mssql://ann:{SECRET}@{host}/jobs")
    assert (address.user, address.password) == ("ann", SECRET)
    assert "for local servers only" in address.warning


@pytest.mark.parametrize(
    "host",
    [
        *("db.example.com", "local.example.com", "db.local.example.com", "internal.net", "notlocal.xlocal"),
        *("8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "11.0.0.1", "100.64.0.1", "0.0.0.0"),
        *("[2001:db8::1]", "[::ffff:8.8.8.8]", "134744072", "0x08080808", "127.1"),
    ],
)
def test_any_other_server_takes_one_only_if_it_is_asked_to(host: str) -> None:
    told = refusal(f"mssql://ann:{SECRET}@{host}/jobs")
    assert "leave user and password out of the URL" in told
    assert "Entra ID" in told
    assert "password_beyond_local=on" in told
    refusal(f"mssql://ann:{SECRET}@{host}/jobs?password_beyond_local=off")
    assert parse(f"mssql://ann:{SECRET}@{host}/jobs?password_beyond_local=on").warning


@pytest.mark.parametrize("setting", ["encrypt=off", "trust_server_certificate=on"])
def test_azure_is_always_encrypted_and_checked(setting: str) -> None:
    assert "leave encrypt=" in refusal(f"mssql://a.database.windows.net/jobs?{setting}")


@pytest.mark.parametrize("setting", ["encrypt=off", "trust_server_certificate=on"])
def test_a_token_goes_only_where_it_belongs(setting: str) -> None:
    assert "token" in refusal(f"mssql://db.example.com/jobs?{setting}")
    assert parse(f"mssql://127.0.0.1/jobs?{setting}").user == ""


def test_a_password_has_a_warning_and_entra_id_has_none() -> None:
    assert "SQL sign-in with a password;" in parse(f"mssql://ann:{SECRET}@db.lan/jobs").warning
    assert "sent unencrypted" in parse(f"mssql://ann:{SECRET}@db.lan/jobs?encrypt=off").warning
    assert parse("mssql://db.example.com/jobs").warning == ""


def test_pytds_cannot_trust_blindly() -> None:
    told = refusal(f"mssql+pytds://ann:{SECRET}@db.lan/jobs?trust_server_certificate=on")
    assert "SSL_CERT_FILE" in told


@pytest.mark.parametrize(
    ("parameter", "hint"),
    [
        ("time_out=3", "did you mean timeout?"),
        ("Encrypt=yes", "did you mean encrypt?"),
        ("trustservercertificate=yes", "did you mean trust_server_certificate?"),
        ("colour=red", "known are schema, pool, timeout"),
        ("password_beyond=on", "did you mean password_beyond_local?"),
    ],
)
def test_an_unknown_parameter_is_told_with_the_nearest(parameter: str, hint: str) -> None:
    assert hint in refusal(f"mssql://ann:{SECRET}@localhost/jobs?{parameter}")


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("postgresql://localhost/jobs", "mssql://host:port/database"),
        (f"mssql://ann:{SECRET}/x@localhost/jobs", "host and port"),
        (f"mssql://ann:{SECRET}@/jobs", "host and port"),
        ("mssql://localhost:99999/jobs", "not a port"),
        ("mssql://localhost", "database is missing"),
        ("mssql://localhost/a/b", "database is missing"),
        ("mssql://ann@localhost/jobs", "a user goes with a password"),
        (f"mssql://:{SECRET}@localhost/jobs", "a user goes with a password"),
        ("mssql://localhost/jobs?schema=dbo", "schema='dbo'"),
        ("mssql://localhost/jobs?schema=Jobs", "schema='Jobs'"),
        ("mssql://localhost/jobs?schema=db_owner", "schema='db_owner'"),
        ("mssql://localhost/jobs?pool=1", "pool='1'"),
        ("mssql://localhost/jobs?timeout=0.5", "timeout='0.5'"),
        ("mssql://localhost/jobs?encrypt=perhaps", "encrypt='perhaps'"),
        ("mssql://localhost/jobs?client_id=me", "client_id="),
        (f"mssql://ann:{SECRET}@localhost/jobs?client_id={ID}", "client_id="),
    ],
)
def test_what_is_wrong_is_named(url: str, part: str) -> None:
    assert part in refusal(url)


async def test_the_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    address = parse(f"mssql+pytds://ann:{SECRET}@localhost/logged_once")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await Database(address).close()
    assert [record.getMessage() for record in caplog.records] == [address.warning]
    assert SECRET not in caplog.text

"""What each driver is asked for, and what is made of statements before it sees them."""

import socket
import struct
import sys
import threading
from typing import Any

import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.stores.mssql import mssql_python_driver, pytds_driver
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.driver import Fault, bound, settings
from holdfast.stores.mssql.drivers import driver_named
from holdfast.stores.mssql.sockets import finding, shut

URL = "mssql://ann:s3%7Bcr%7D%3Bt@localhost:1500/jobs?timeout=2.5"
SECRET = "s3{cr};t"
_DRIVER = "[Microsoft][ODBC Driver 18 for SQL Server]"


class Recorder:
    """In place of a driver's package: says what it was given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}
        self.sent: list[str] = []
        self.description = None
        self.timeout = 0
        self.is_closed = False
        self.fault: Exception | None = None

    def connect(self, *args: Any, **named: Any) -> "Recorder":
        self.given = named | ({"string": args[0]} if args else {})
        return self

    def cursor(self) -> "Recorder":
        return self

    def execute(self, sql: str, *_: Any) -> None:
        self.sent.append(sql)
        if self.fault is not None:
            raise self.fault

    def nextset(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(mssql_python_driver._driver, "connect", made.connect)
    monkeypatch.setattr(mssql_python_driver, "_knock", lambda address: None)
    monkeypatch.setattr(pytds_driver._pytds, "connect", made.connect)
    monkeypatch.setattr(pytds_driver, "_socket_of", lambda raw: raw)
    return made


def parts(recorder: Recorder) -> dict[str, str]:
    text = recorder.given["string"].removesuffix("}")
    return dict(part.split("={", 1) for part in text.split("};"))


def test_mssql_python_is_told_all_that_the_url_says(recorder: Recorder) -> None:
    driver_named("mssql-python").connect(parse(URL), None, 2.5)
    assert recorder.given["string"] == (
        "Server={localhost,1500};Database={jobs};Encrypt={no};TrustServerCertificate={no};ConnectRetryCount={0};"
        "KeepAlive={10};KeepAliveInterval={1};UID={ann};PWD={s3{cr}};t}"
    )
    assert recorder.given["autocommit"] is True
    assert recorder.given["timeout"] == 3
    assert recorder.given["attrs_before"] == {}
    assert recorder.timeout == 3
    assert recorder.sent == [settings(2.5)]


def test_mssql_python_gets_a_token_and_no_user(recorder: Recorder) -> None:
    address = parse("mssql://cris.database.windows.net/jobs")
    driver_named("mssql-python").connect(address, "tök", None)
    encoded = "tök".encode("utf-16-le")
    assert recorder.given["attrs_before"] == {1256: struct.pack("<I", 6) + encoded}
    assert parts(recorder) == {
        "Server": "cris.database.windows.net,1433",
        "Database": "jobs",
        "Encrypt": "yes",
        "TrustServerCertificate": "no",
        "ConnectRetryCount": "0",
        "KeepAlive": "10",
        "KeepAliveInterval": "1",
    }
    assert recorder.timeout == 0


def test_the_pool_of_mssql_python_is_off() -> None:
    driver_named("mssql-python")
    assert mssql_python_driver._driver.pooling.__module__.startswith("mssql_python")
    assert sys.modules["mssql_python.pooling"].PoolingManager.is_enabled() is False


def test_pytds_is_told_all_that_the_url_says(recorder: Recorder) -> None:
    driver_named("pytds").connect(parse(URL.replace("mssql:", "mssql+pytds:")), None, 2.5)
    assert recorder.given == {
        "dsn": "localhost",
        "port": 1500,
        "database": "jobs",
        "user": "ann",
        "password": SECRET,
        "timeout": 2.5,
        "login_timeout": 2.5,
        "appname": "holdfast",
        "autocommit": True,
    }


def test_pytds_gets_a_token_and_no_user_and_checks_the_certificate(recorder: Recorder) -> None:
    driver_named("pytds").connect(parse("mssql+pytds://cris.database.windows.net/jobs"), "tok", None)
    assert recorder.given.pop("access_token_callable")() == "tok"
    assert recorder.given.pop("cafile")
    assert "user" not in recorder.given
    assert "password" not in recorder.given


@pytest.mark.parametrize("name", ["mssql-python", "pytds"])
def test_a_connection_that_cannot_be_set_up_is_closed(name: str, recorder: Recorder) -> None:
    recorder.fault = RuntimeError("no") if name == "mssql-python" else OSError("no")
    with pytest.raises(Fault):
        driver_named(name).connect(parse(URL), None, 1)
    assert recorder.is_closed


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("mssql-python", "mssql_python", "sqlserver"), ("pytds", "pytds", "pytds")],
)
def test_a_missing_package_is_named_with_its_extra(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"holdfast.stores.mssql.{package}_driver")
    with pytest.raises(ConfigurationError, match=rf"package {package}: pip install 'holdfast\[{extra}\]'"):
        driver_named(name)


def test_pytds_without_encryption_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytds_driver._tls, "OPENSSL_AVAILABLE", False)
    with pytest.raises(ConfigurationError, match="pyopenssl"):
        driver_named("pytds").connect(parse("mssql+pytds://ann:b@db.lan/jobs"), None, 1)


def test_pytds_connects_as_always_for_others() -> None:
    """Only our own connections are tried once; pytds tries again for whoever else uses it here."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TimeoutError):
        pytds_driver._pytds.connect("127.0.0.1", port=port, login_timeout=0.2)


@pytest.mark.parametrize(
    ("state", "text", "is_lost", "sent"),
    [
        ("Timeout expired", "[SQL Server]Lock request time out period exceeded.", False, True),
        ("Timeout expired", "Query timeout expired", True, True),
        ("Communication link failure", "TCP Provider: Error code 0x2746", True, True),
        ("Invalid precision or scale value", "Invalid precision value", False, False),
    ],
)
def test_the_words_of_the_server_are_told_from_those_of_the_driver(
    state: str, text: str, is_lost: bool, sent: bool, recorder: Recorder
) -> None:
    connection = driver_named("mssql-python").connect(parse(URL), None, 1)
    recorder.fault = mssql_python_driver._exceptions.OperationalError(state, _DRIVER + text)
    with pytest.raises(Fault) as caught:
        connection.execute("SELECT 1")
    fault = caught.value
    assert (fault.state, fault.is_lost, fault.sent) == (state, is_lost, sent)
    assert not fault.text.startswith("[")


@pytest.mark.parametrize(
    ("sql", "parameters", "mark", "expected"),
    [
        ("a = ?, b = ?", (1, 2), "?", "a = ?, b = ?"),
        ("a = ?, b = ?", (1, None), "?", "a = ?, b = NULL"),
        ("a = ?, b = ?", (None, 2), "%s", "a = NULL, b = %s"),
        ("a LIKE '%?''?' AND b = ?", (1,), "%s", "a LIKE '%%?''?' AND b = %s"),
        ('"a?" = ? -- ?\n + ?', (1, 2), "%s", '"a?" = %s -- ?\n + %s'),
        ("[a?] = /* ?\n? */ ?", (1,), "%s", "[a?] = /* ?\n? */ %s"),
    ],
)
def test_marks_stand_where_parameters_do(
    sql: str, parameters: tuple[Any, ...], mark: str, expected: str
) -> None:
    text, kept = bound(sql, parameters, mark)
    assert text == expected
    assert kept == [value for value in parameters if value is not None]


def test_locks_are_waited_for_less_long_than_answers() -> None:
    assert settings(10).endswith("SET LOCK_TIMEOUT 7500;")
    assert settings(None).endswith("SET LOCK_TIMEOUT -1;")


def test_a_socket_opened_meanwhile_is_found_and_can_be_shut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        with finding(listener.getsockname()[1]) as found:
            client.connect(listener.getsockname())
            server, _ = listener.accept()
        assert found.ends == (client.getsockname(), client.getpeername())
        heard: list[bytes] = []
        reader = threading.Thread(target=lambda: heard.append(client.recv(1)))
        reader.start()
        shut(found.ends)
        reader.join(5)
        server.close()
    assert heard == [b""]


def test_two_sockets_opened_meanwhile_are_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        name = listener.getsockname()
        with socket.socket() as one, socket.socket() as two:
            with finding(name[1]) as found:
                one.connect(name)
                two.connect(name)
            assert found.ends is None

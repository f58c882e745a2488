"""pytds, as far as it is used here: pure Python, and it tells the server's numbers."""

import ipaddress
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

from holdfast.model.errors import ConfigurationError
from holdfast.stores.mssql.address import PYTDS, Address
from holdfast.stores.mssql.driver import APPLICATION, Connection, Fault, Row, Value, bound

_pytds: Any = import_module("pytds")
_tls: Any = import_module("pytds.tls")
_utils: Any = import_module("pytds.utils")

_LOST = (OSError, EOFError, struct.error, IndexError, AssertionError)
"""What it raises when there is no word from the server, or none that can be read."""

_here = threading.local()
_again_and_again: Callable[..., Any] = _utils.exponential_backoff


class PytdsConnection(Connection):
    """A connection without MARS: one statement at a time."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._socket = _socket_of(raw)

    @property
    def raw(self) -> Any:
        return self._raw

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[list[Row]]:
        try:
            cursor = self._raw.cursor()
            if parameters:
                text, kept = bound(sql, parameters, "%s")
                cursor.execute(text, tuple(_pytds.Binary(x) if isinstance(x, bytes) else x for x in kept))
            else:
                cursor.execute(sql)
            return _row_sets(cursor)
        except (_pytds.Error, *_LOST) as error:
            raise _fault(error, sent=True) from error

    def is_alive(self, rested: float) -> bool:
        """While it rests the server says nothing, unless that it ends."""
        if self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def interrupt(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(_pytds.Error, *_LOST, _ssl_error()):
            self._raw.close()
        self._socket.close()


class Pytds:
    """Opens connections with pytds."""

    name = PYTDS

    def connect(self, address: Address, token: str | None, patience: float | None) -> Connection:
        settings: dict[str, Any] = {"user": address.user, "password": address.password}
        if token is not None:
            settings = {"access_token_callable": lambda: token}
        if address.encrypt:
            settings["cafile"] = _authorities()
        _here.is_ours = True
        try:
            raw = _pytds.connect(
                dsn=address.host,
                port=address.port,
                database=address.database,
                timeout=patience,
                login_timeout=address.patience,
                appname=APPLICATION,
                autocommit=True,
                **settings,
            )
        except (_pytds.Error, *_LOST, _ssl_error()) as error:
            raise _fault(error, sent=False) from error
        finally:
            _here.is_ours = False
        connection = PytdsConnection(raw)
        try:
            connection.prepare(patience)
        except BaseException:
            connection.close()
            raise
        return connection


def _row_sets(cursor: Any) -> list[list[Row]]:
    found: list[list[Row]] = []
    while True:
        if cursor.description:
            found.append(cursor.fetchall())
        if not cursor.nextset():
            return found


def _fault(error: Exception, *, sent: bool) -> Fault:
    number = getattr(error, "number", 0) or None
    told = error if isinstance(error, OSError) or not error.args else error.args[0]
    text = str(told) or type(error).__name__
    is_refusal = isinstance(error, _pytds.DataError)
    is_lost = number is None and not is_refusal
    return Fault(
        text, number=number, state=type(error).__name__, is_lost=is_lost, sent=sent and not is_refusal
    )


def _socket_of(raw: Any) -> socket.socket:
    """The socket under the connection, and under the encryption if there is one."""
    found: Any = raw._tds_socket.sock  # noqa: SLF001  it offers no other way to see that a server has gone
    inner: socket.socket = getattr(found, "_transport", found)
    return inner


def _ssl_error() -> type[Exception]:
    kind: type[Exception] = import_module("OpenSSL.SSL").Error if _tls.OPENSSL_AVAILABLE else ssl.SSLError
    return kind


def _authorities() -> str:
    """The file with the certificates that this machine trusts."""
    if not _tls.OPENSSL_AVAILABLE:
        raise ConfigurationError(
            "encryption with pytds needs the package pyopenssl: pip install 'holdfast[pytds]'",
            setting="store",
        )
    # Its types leave out that there may be none.
    found: str | None = cast("str | None", ssl.get_default_verify_paths().cafile)
    if found is None:
        raise ConfigurationError(
            "there is no file of trusted certificates here; name one with the environment variable "
            "SSL_CERT_FILE",
            setting="store",
        )
    return found


def _once(
    work: Callable[[float], Any], ex_handler: Any, max_time_sec: float, *rest: Any, **named: Any
) -> Any:
    """Connects once: pytds would sleep and try again until all time is over, also where nobody listens."""
    if getattr(_here, "is_ours", False):
        return work(max_time_sec)
    return _again_and_again(work, ex_handler, max_time_sec, *rest, **named)


def _is_for(cert: Any, name: bytes) -> bool:
    """Whether the certificate is the host's. The check of pytds needs what pyOpenSSL 26.2 no longer has."""
    x509 = import_module("cryptography.x509")
    host = name.decode("ascii").lower().rstrip(".")
    try:
        names = cert.to_cryptography().extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    with suppress(ValueError):
        return ipaddress.ip_address(host) in names.get_values_for_type(x509.IPAddress)
    known = [each.lower() for each in names.get_values_for_type(x509.DNSName)]
    return host in known or f"*.{host.partition('.')[2]}" in known


_utils.exponential_backoff = _once
_tls.validate_host = _is_for

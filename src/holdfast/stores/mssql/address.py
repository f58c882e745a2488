"""Which database, and how it is used: what an `mssql://` URL says."""

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from holdfast.stores.parameters import number, switch, wrong

MSSQL_PYTHON: Final = "mssql-python"
PYTDS: Final = "pytds"
DRIVERS: Final = {"mssql": MSSQL_PYTHON, "mssql+mssqlpython": MSSQL_PYTHON, "mssql+pytds": PYTDS}
"""The driver that each scheme asks for."""

_FORM = "use mssql://host:port/database, or mssql://user:password@host:port/database for a local server"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,23}", re.ASCII)
_HOST = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)(:[0-9]{0,5})?", re.ASCII)
_CLIENT_ID = re.compile(r"[0-9a-fA-F-]{36}", re.ASCII)
_LAST_PORT = 65535
_PORT = 1433
_LONGEST_NAME = 128
_TAKEN = frozenset({"dbo", "guest", "information_schema", "sys"})
_PARAMETERS = (
    *("schema", "pool", "timeout", "encrypt", "trust_server_certificate", "client_id"),
    "password_beyond_local",
)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
"""What the network takes for an address, although it has no dots."""

_LOCAL_NAMES = (".local", ".internal", ".lan", ".localhost")
_LOCAL_NETWORKS = tuple(
    ip_network(text)
    for text in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("::1/128", "fe80::/10", "fc00::/7"),
    )
)
_CLOUDS = (
    ".database.windows.net",
    ".database.usgovcloudapi.net",
    ".database.chinacloudapi.cn",
    ".database.cloudapi.de",
    ".database.fabric.microsoft.com",
    ".datawarehouse.fabric.microsoft.com",
    ".sql.azuresynapse.net",
)


@dataclass(frozen=True, slots=True)
class Address:
    """A database, where in it the tables are, and the settings of the connections to it.

    `pool` is how many connections one event loop may have for its calls, and as many again for transactions
    of handlers. `patience` is how many seconds a connection or an answer is waited for. Without a user the
    sign-in is Entra ID's, as the managed identity `client_id` if it is given. A password goes to local
    servers, with `password_beyond_local` also to others.
    """

    driver: str
    host: str
    port: int
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    schema: str = "holdfast"
    pool: int = 8
    patience: float = 10.0
    encrypt: bool = True
    trusts_certificate: bool = False
    client_id: str = ""
    password_beyond_local: bool = False

    @property
    def place(self) -> str:
        """The server and database, for messages: nothing of it is secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.database}"

    @property
    def is_azure(self) -> bool:
        return self.host.lower().rstrip(".").endswith(_CLOUDS)

    @property
    def warning(self) -> str:
        """What an operator should know of the way to sign in; empty if nothing is wrong with it."""
        if not self.user:
            return ""
        plain = "" if self.encrypt else ", sent unencrypted"
        return (
            f"{self.place}: SQL sign-in with a password{plain}; use it for local servers only, and Entra ID "
            "(a URL without a user) elsewhere"
        )


def parse(url: str) -> Address:
    """The address that a URL names."""
    parts = _split(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in query:
        if name not in _PARAMETERS:
            raise wrong(_unknown(name))
    host, port = _server(parts.netloc.rpartition("@")[2])
    user, password = _user(parts.netloc.rpartition("@")[0])
    address = Address(
        driver=DRIVERS[parts.scheme],
        host=host,
        port=port,
        database=_database(parts.path),
        user=user,
        password=password,
        schema=checked_name(query.get("schema", "holdfast")),
        pool=int(number("pool", query.get("pool", "8"), 2, 1_000)),
        patience=number("timeout", query.get("timeout", "10"), 1, 3600),
        encrypt=_switch(query, "encrypt", default=not is_loopback(host)),
        trusts_certificate=_switch(query, "trust_server_certificate", default=False),
        client_id=query.get("client_id", ""),
        password_beyond_local=_switch(query, "password_beyond_local", default=False),
    )
    _check(address)
    return address


def checked_name(text: str) -> str:
    """The text, if it can be the name of our schema."""
    if not _NAME.fullmatch(text) or text in _TAKEN or text.startswith("db_"):
        raise wrong(
            f"schema={text!r} is not a name of up to 24 lower-case ASCII letters, digits and _; it must not "
            "begin with a digit or db_, nor be dbo, guest or sys"
        )
    return text


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(host: str) -> bool:
    """Whether a host is this machine or of the network around it, by its name or address alone."""
    plain = host.lower().rstrip(".")
    try:
        found = ip_address(plain)
    except ValueError:
        return plain.endswith(_LOCAL_NAMES) or ("." not in plain and not _NUMBER.fullmatch(plain))
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return any((mapped or found) in network for network in _LOCAL_NETWORKS)


def _check(address: Address) -> None:
    """Refuses what would give a secret away."""
    if address.is_azure:
        if address.user:
            raise wrong(
                f"{address.place} takes no password from Holdfast: leave user and password out of the URL, "
                "and the sign-in is Entra ID's (client_id= chooses a managed identity)"
            )
        if not address.encrypt or address.trusts_certificate:
            raise wrong(
                f"{address.place} is always encrypted, and its certificate checked: leave encrypt= and "
                "trust_server_certificate= out"
            )
    if address.user and not is_local(address.host) and not address.password_beyond_local:
        raise wrong(
            f"{address.place} is not known to be a local server, and passwords are for those: leave user and "
            "password out of the URL, and the sign-in is Entra ID's; or, if you know the way there, say "
            "password_beyond_local=on"
        )
    if address.client_id and (address.user or not _CLIENT_ID.fullmatch(address.client_id)):
        raise wrong(
            "client_id= is the id of a managed identity, such as 01234567-89ab-cdef-0123-456789abcdef, in a "
            "URL without a user"
        )
    if not address.user and not is_loopback(address.host):
        if not address.encrypt:
            raise wrong("encrypt=off would show the sign-in token to everybody on the way; leave it out")
        if address.trusts_certificate:
            raise wrong("trust_server_certificate=on would give the sign-in token to anybody; leave it out")
    if address.driver == PYTDS and address.encrypt and address.trusts_certificate:
        raise wrong(
            "pytds always checks the certificate: name the one to trust with the environment variable "
            "SSL_CERT_FILE instead of trust_server_certificate=, or use mssql://"
        )


def _split(url: str) -> SplitResult:
    """The parts of the URL. What is said of a wrong one shows nothing of it, for it may be the password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in DRIVERS:
        raise wrong(f"{_FORM}; {', '.join(f'{scheme}://' for scheme in DRIVERS)} are known")
    if "@" in parts.path or parts.fragment or not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        raise wrong(
            f"the host and port cannot be told; {_FORM}, and write / ? # @ : [ ] in a user name or password "
            "as %2F %3F %23 %40 %3A %5B %5D"
        )
    return parts


def _server(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    assert found is not None
    port = int((found[2] or ":")[1:] or _PORT)
    if not 0 < port <= _LAST_PORT:
        raise wrong(f"{port} is not a port from 1 to {_LAST_PORT}")
    return found[1].strip("[]"), port


def _user(text: str) -> tuple[str, str]:
    user, _, password = text.partition(":")
    if text and not (user and password):
        raise wrong(
            "a user goes with a password, as in mssql://user:password@host/database; "
            "for Entra ID leave both out"
        )
    return unquote(user), unquote(password)


def _database(path: str) -> str:
    name = unquote(path.removeprefix("/"))
    if not name or "/" in name or "\0" in name or len(name) > _LONGEST_NAME:
        raise wrong(f"the database is missing or not a name; {_FORM}")
    return name


def _switch(query: dict[str, str], name: str, *, default: bool) -> bool:
    text = query.get(name)
    if text is None:
        return default
    return switch(name, {"yes": "on", "no": "off"}.get(text.lower(), text))


def _unknown(name: str) -> str:
    near = get_close_matches(name.lower(), _PARAMETERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_PARAMETERS)}"
    return f"unknown parameter {name!r}; {hint}"

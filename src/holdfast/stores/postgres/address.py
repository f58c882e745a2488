"""Which database, and how it is used: what a `postgresql://` URL says."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.stores.parameters import number, switch, wrong

SCHEMES: Final = ("postgresql", "postgres")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,23}", re.ASCII)
_SERVER = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:\[\]]*)(:[0-9]{0,5})?", re.ASCII)
_LAST_PORT = 65535
_OUR_NAMES = re.compile(r"\bholdfast(?:\.(?=[a-z%{])|_(?=[a-z]))")
_OURS = ("schema", "prefix", "pool", "notify", "prepared", "timeout")


@dataclass(frozen=True, slots=True)
class Address:
    """A database, where in it the tables are, and the settings of the connections to it.

    `pool` is how many connections one event loop may have for its calls, and as many again for transactions
    of handlers. `patience` is how many seconds a connection or an answer is waited for.
    """

    dsn: str = field(repr=False)
    schema: str = "holdfast"
    prefix: str = ""
    pool: int = 4
    notify: bool = True
    prepared: bool = True
    patience: float = 10.0

    @property
    def place(self) -> str:
        """The server and database, for messages: nothing of it is secret."""
        parts = urlsplit(self.dsn)
        return f"{parts.netloc.rpartition('@')[2] or 'the local server'}{parts.path}"

    def rendered(self, sql: str) -> str:
        """The SQL with our names where they are in this database."""
        whole, part = f'"{self.schema}".{self.prefix}', self.prefix
        return _OUR_NAMES.sub(lambda found: whole if found[0].endswith(".") else part, sql)

    def channel(self, ns: int) -> str:
        """The channel on which wake-ups of a namespace are told."""
        return f"hf.{self.schema}.{self.prefix}{ns}"

    def lock_channel(self, ns: int) -> str:
        """The channel on which those who wait for a lock of a namespace are called."""
        return f"{self.channel(ns)}.lock"


def parse(url: str) -> Address:
    """The address that a URL names. What is not ours in its query is the driver's."""
    parts = _split(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    ours = {name: query.pop(name) for name in _OURS if name in query}
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))
    return Address(
        dsn,
        schema=checked_name("schema", ours.get("schema", "holdfast")),
        prefix=checked_name("prefix", ours["prefix"]) if ours.get("prefix") else "",
        pool=int(number("pool", ours.get("pool", "4"), 2, 1_000)),
        notify=switch("notify", ours.get("notify", "on")),
        prepared=switch("prepared", ours.get("prepared", "on")),
        patience=number("timeout", ours.get("timeout", "10"), 0.1, 3600),
    )


def checked_name(setting: str, text: str) -> str:
    """The text, if it can be part of a name in the database."""
    if not _NAME.fullmatch(text) or text.startswith("pg_") or text == "information_schema":
        raise wrong(
            f"{setting}={text!r} is not a name of up to 24 lower-case ASCII letters, digits and _; "
            "it must not begin with a digit or pg_"
        )
    return text


def _split(url: str) -> SplitResult:
    """The parts of the URL. What is said of a wrong one shows nothing of it, for it may be the password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in SCHEMES:
        raise wrong("use postgresql://user:password@host:port/database")
    servers = parts.netloc.rpartition("@")[2].split(",")
    if "@" in parts.path or parts.fragment or not all(map(_is_server, servers)):
        raise wrong(
            "the host and port cannot be told; use postgresql://user:password@host:port/database, and "
            "write / ? # @ : [ ] in a user name or password as %2F %3F %23 %40 %3A %5B %5D"
        )
    return parts


def _is_server(text: str) -> bool:
    found = _SERVER.fullmatch(text)
    return found is not None and int((found[2] or ":")[1:] or 0) <= _LAST_PORT

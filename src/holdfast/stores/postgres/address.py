"""Which database, and how it is used: what a `postgresql://` URL says."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.model.errors import ConfigurationError

SCHEMES: Final = ("postgresql", "postgres")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,23}", re.ASCII)
_SWITCH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
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
        sql = re.sub(r"\bholdfast\.(?=[a-z%{])", f"{self.schema}.{self.prefix}", sql)
        return re.sub(r"\bholdfast_(?=[a-z])", self.prefix, sql)

    def channel(self, ns: int) -> str:
        """The channel on which wake-ups of a namespace are told."""
        return f"holdfast_{self.schema}_{self.prefix}{ns}"


def parse(url: str) -> Address:
    """The address that a URL names. What is not ours in its query is the driver's."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise _wrong("use postgresql://user:password@host:port/database")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    ours = {name: query.pop(name) for name in _OURS if name in query}
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))
    return Address(
        dsn,
        schema=_name("schema", ours.get("schema", "holdfast")),
        prefix=_name("prefix", ours["prefix"]) if ours.get("prefix") else "",
        pool=int(_number("pool", ours.get("pool", "4"), 2, 1_000)),
        notify=_switch("notify", ours.get("notify", "on")),
        prepared=_switch("prepared", ours.get("prepared", "on")),
        patience=_number("timeout", ours.get("timeout", "10"), 0.1, 3600),
    )


def _name(setting: str, text: str) -> str:
    if not _NAME.fullmatch(text) or text.startswith("pg_"):
        raise _wrong(f"{setting}={text!r} is not a name of up to 24 lower-case ASCII letters, digits and _")
    return text


def _number(setting: str, text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise _wrong(f"{setting}={text!r} is not a number from {least:g} to {most:g}")
    return number


def _switch(setting: str, text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise _wrong(f"{setting}={text!r} is not on or off")
    return _SWITCH[text.lower()]


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, setting="store")

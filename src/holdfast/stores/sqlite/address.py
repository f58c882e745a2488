"""Which file, and how it is used: what a `sqlite:///` URL says."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from holdfast.model.errors import ConfigurationError
from holdfast.stores.sqlite.statements import PREFIX

_SCHEME = "sqlite:///"
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}", re.ASCII)
_SYNCHRONOUS = ("normal", "full", "extra")


@dataclass(frozen=True, slots=True)
class Address:
    """A file and the settings of the connections to it; `patience` is how long a lock is waited for."""

    path: Path
    prefix: str = PREFIX
    synchronous: str = "full"
    patience: float = 10.0

    @property
    def wal(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    @property
    def checkpointer(self) -> Path:
        return self.path.with_name(self.path.name + "-checkpointer")


def parse(url: str) -> Address:
    """The address that a URL names; a path after three slashes is relative, after four absolute."""
    if not url.startswith(_SCHEME):
        raise _wrong("use sqlite:///relative.db or sqlite:////absolute.db")
    plain, _, query = url.removeprefix(_SCHEME).partition("?")
    path = unquote(plain)
    if not path or path == ":memory:" or path.endswith("/") or "\0" in path:
        raise _wrong(f"{plain!r} is not a file; for jobs in memory use memory://")
    settings = dict(parse_qsl(query, keep_blank_values=True))
    prefix = settings.pop("prefix", PREFIX)
    if not _PREFIX.fullmatch(prefix) or prefix.lower().startswith("sqlite_"):
        raise _wrong(f"prefix={prefix!r} is not a table prefix: up to 40 ASCII letters, digits and _")
    synchronous = settings.pop("synchronous", "full").lower()
    if synchronous not in _SYNCHRONOUS:
        raise _wrong(f"synchronous={synchronous!r} is not one of {', '.join(_SYNCHRONOUS)}")
    patience = _patience(settings.pop("timeout", "10"))
    if settings:
        raise _wrong(f"unknown parameter {min(settings)!r}; known are prefix, synchronous, timeout")
    return Address(Path(path).absolute(), prefix, synchronous, patience)


def _patience(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.01 <= seconds <= 3600:
        raise _wrong(f"timeout={text!r} is not a number of seconds between 0.01 and 3600")
    return seconds


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, setting="store")

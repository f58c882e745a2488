"""Which server, and how it is used: what a `redis://` URL says."""

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from holdfast.stores.parameters import number, switch, wrong

Kind = Literal["server", "sentinel", "cluster", "unix"]

_SCHEME = re.compile(r"(redis|valkey)(s?)(?:\+(sentinel|cluster|unix))?", re.ASCII)
_SERVER = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:\[\]]*)(?::([0-9]{0,5}))?", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,40}", re.ASCII)
_LAST_PORT = 65535
_PORTS: Final[dict[Kind, int]] = {"server": 6379, "sentinel": 26379, "cluster": 6379, "unix": 0}
_OURS = ("prefix", "notify", "timeout", "db")
_TLS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_SENTINELS = ("sentinel_username", "sentinel_password")
_EXAMPLES = (
    "redis://host:6379/0, rediss://user:password@host, redis+sentinel://host:26379,host:26379/service, "
    "redis+cluster://host:6379,host:6379 or redis+unix:///path/to/socket"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A server, or those who know where it is, and the settings of the connections to it.

    `patience` is how many seconds a connection or an answer is waited for. `service` is the name by which
    Sentinels know the server.
    """

    kind: Kind
    hosts: tuple[tuple[str, int], ...]
    path: str = ""
    service: str = ""
    db: int = 0
    secure: bool = False
    credentials: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    sentinel_credentials: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    tls: dict[str, Any] = field(default_factory=dict[str, Any])
    prefix: str = "holdfast"
    notify: bool = True
    patience: float = 5.0

    @property
    def place(self) -> str:
        """The servers and the database, for messages: nothing of it is secret."""
        if self.kind == "unix":
            return self.path
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return hosts + (f"/{self.service}" if self.service else "") + (f"/{self.db}" if self.db else "")

    def key(self, namespace: str) -> bytes:
        """How all keys of a namespace begin, in braces what decides on their slot in a Cluster."""
        # A brace in the name would end it early, and one namespace could reach into another.
        name = namespace.replace("%", "%25").replace("}", "%7D")
        return f"{{{self.prefix}:{name}}}:".encode()


def parse(url: str) -> Address:
    """The address that a URL names."""
    parts, scheme = _split(url)
    kind: Kind = scheme[3] or "server"  # type: ignore[assignment]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = _tls({name: query.pop(name) for name in _TLS if name in query})
    sentinels = {name: query.pop(name) for name in _SENTINELS if name in query}
    ours = {name: query.pop(name) for name in _OURS if name in query}
    if query:
        known = ", ".join((*_OURS, *_TLS, *_SENTINELS))
        raise wrong(f"{', '.join(sorted(query))} is not known in the query; known are {known}")
    path, service, db = _path(kind, parts, ours.pop("db", ""))
    if not _PREFIX.fullmatch(ours.get("prefix", "holdfast")):
        raise wrong(f"prefix={ours['prefix']!r} is not 1 to 40 ASCII letters, digits and _ . : -")
    return Address(
        kind,
        () if kind == "unix" else _hosts(kind, parts.netloc.rpartition("@")[2]),
        path=path,
        service=service,
        db=db,
        secure=bool(scheme[2]),
        credentials=_credentials(parts),
        sentinel_credentials={name.removeprefix("sentinel_"): text for name, text in sentinels.items()},
        tls=tls,
        prefix=ours.get("prefix", "holdfast"),
        notify=switch("notify", ours.get("notify", "on")),
        patience=number("timeout", ours.get("timeout", "5"), 0.1, 3600),
    )


def _split(url: str) -> tuple[SplitResult, re.Match[str]]:
    """The parts of the URL. What is said of a wrong one shows nothing of it, for it may be the password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    scheme = _SCHEME.fullmatch(parts.scheme)
    if scheme is None:
        raise wrong(f"use {_EXAMPLES}")
    if parts.fragment or (scheme[3] != "unix" and "@" in parts.path):
        raise wrong(
            f"the host and port cannot be told; use {_EXAMPLES}, and write / ? # @ : [ ] in a user name or "
            "password as %2F %3F %23 %40 %3A %5B %5D"
        )
    return parts, scheme


def _hosts(kind: Kind, text: str) -> tuple[tuple[str, int], ...]:
    hosts: list[tuple[str, int]] = []
    for server in text.split(","):
        found = _SERVER.fullmatch(server)
        if found is None or int(found[2] or 0) > _LAST_PORT:
            raise wrong(f"the host and port cannot be told; use {_EXAMPLES}")
        hosts.append((found[1].strip("[]") or "localhost", int(found[2] or _PORTS[kind])))
    if kind == "server" and len(hosts) > 1:
        raise wrong("several hosts are for redis+sentinel:// and redis+cluster://")
    return tuple(hosts)


def _path(kind: Kind, parts: SplitResult, asked: str) -> tuple[str, str, int]:
    """The path of the socket, the name of the service, the number of the database."""
    if kind == "unix":
        if parts.scheme.startswith(("rediss", "valkeys")):
            raise wrong("a socket has no TLS; use redis+unix:///path/to/socket")
        if not parts.path.strip("/"):
            raise wrong("a socket needs its path: redis+unix:///path/to/socket")
        return unquote(parts.path), "", _db(asked)
    steps = [unquote(step) for step in parts.path.split("/") if step]
    service = steps.pop(0) if kind == "sentinel" and steps else ""
    if kind == "sentinel" and not service:
        raise wrong("Sentinels need the name of the service: redis+sentinel://host:26379/service")
    if len(steps) > 1:
        raise wrong(f"the path has too many parts; use {_EXAMPLES}")
    db = _db(steps[0] if steps else asked)
    if kind == "cluster" and db:
        raise wrong("a Cluster has the database 0 only")
    return "", service, db


def _db(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise wrong(f"{text!r} is not the number of a database")
    return int(text or 0)


def _credentials(parts: SplitResult) -> dict[str, Any]:
    found = {"username": parts.username, "password": parts.password}
    return {name: unquote(text) for name, text in found.items() if text}


def _tls(given: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(given)
    if "ssl_check_hostname" in found:
        found["ssl_check_hostname"] = switch("ssl_check_hostname", found["ssl_check_hostname"])
    return found

"""Where a request comes from and what it was sent to: against other sites, and against names that lie."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request

from holdfast.web.problem import Problem

LOCAL = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"
_OURS = frozenset({"same-origin", "none"})


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class Hosts:
    """The names under which this server may be asked.

    A page of an attacker can have its own name point here, and then is of one origin with this server. An
    address cannot be taken over like that, so that addresses are fine where `addresses` says so.
    """

    def __init__(
        self, names: Iterable[str] = LOCAL, *, allowed: Iterable[str] = (), addresses: bool = False
    ) -> None:
        self._allowed = frozenset(name.lower().rstrip(".") for name in allowed)
        self._names = frozenset(name.lower().rstrip(".") for name in names) | self._allowed
        self._addresses = addresses

    def check(self, request: Request) -> None:
        """Refuses a request for a name that is not ours."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not hosts[0]:
            raise Problem(400, "invalid", "the request must have one Host header", "Host")
        if not self.knows(hosts[0]):
            raise Problem(
                421,
                "wrong_host",
                "this server is not meant to be reached under that name; its operator can allow it with "
                "--allowed-host",
                "Host",
            )

    def knows(self, netloc: str) -> bool:
        name = _name(netloc)
        return ANY in self._names or name in self._names or (self._addresses and _is_address(name))

    def allows(self, netloc: str) -> bool:
        """Whether the operator named it: a proxy may have put another Host into the request."""
        return _name(netloc) in self._allowed


def check_origin(request: Request, hosts: Hosts | None) -> None:
    """Refuses a change that a page of another site asks for."""
    check_site(request)
    origin = request.headers.get("origin")
    if origin is None:
        return
    asked = request.headers.get("host", "").lower()
    try:
        netloc = urlsplit(origin).netloc.lower()
    except ValueError:
        netloc = ""
    is_ours = bool(netloc) and (netloc == asked or (hosts is not None and hosts.allows(netloc)))
    if not is_ours or len(request.headers.getlist("origin")) > 1:
        raise Problem(403, "wrong_origin", "changes are taken only from pages of this server", "Origin")


def check_site(request: Request) -> None:
    """Refuses what a browser says that another site has asked for."""
    for site in request.headers.getlist("sec-fetch-site"):
        if site.lower() not in _OURS:
            raise Problem(403, "wrong_origin", "this is not for pages of other sites", "Sec-Fetch-Site")


def _name(netloc: str) -> str:
    """The host without its port, lower-case; empty for what is none."""
    text = netloc.lower()
    if text.startswith("["):
        address, bracket, port = text.partition("]")
        return address + bracket if bracket and (not port or port[1:].isdigit()) else ""
    name, colon, port = text.partition(":")
    if colon and not port.isdigit():
        return ""
    return name.rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True

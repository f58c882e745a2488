"""What somebody wants to have in Azure, checked before Azure is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Final

from holdfast.model.errors import ConfigurationError

GROUP: Final = "cristp-reltaskexec"
LOCATION: Final = "westus2"
DATABASE: Final = "holdfast"
PRINCIPALS: Final = ("User", "Group", "Application")
HOST_SUFFIX: Final = ".database.windows.net"
AZURE_SERVICES: Final = "AllowAllWindowsAzureIps"
"""The name by which Azure itself calls the rule that lets its own services in."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_GROUP = re.compile(r"[\w().-]{0,89}[\w()-]")
_LOCATION = re.compile(r"[a-z][a-z0-9]{1,62}")
_SERVER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DATABASE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}")
_RESERVED = frozenset({"master", "model", "msdb", "tempdb"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WIDEST = 8


@dataclass(frozen=True, slots=True)
class Administrator:
    """Who signs in to the server as its administrator, by Entra ID.

    `sid` is the object id of a user or a group, but the client id of an application: so SQL Server knows it.
    The tenant is empty where it is not known yet.
    """

    login: str
    sid: str
    tenant: str
    kind: str = "User"

    def __post_init__(self) -> None:
        check_identity("admin-login", self.login)
        check_uuid("admin-object-id", self.sid)
        if self.tenant:
            check_uuid("tenant-id", self.tenant)
        if self.kind not in PRINCIPALS:
            raise ConfigurationError(
                f"{self.kind!r} is none of {', '.join(PRINCIPALS)}", setting="admin-type"
            )


@dataclass(frozen=True, slots=True)
class Rule:
    """One range of addresses that the firewall lets in."""

    name: str
    start: str
    end: str


ALLOW_AZURE: Final = Rule(AZURE_SERVICES, "0.0.0.0", "0.0.0.0")  # noqa: S104  no address to listen on  # nosec B104


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that is to be there, but the administrator, who may have to be asked for first."""

    subscription: str
    server: str
    group: str = GROUP
    location: str = LOCATION
    database: str = DATABASE
    rules: tuple[Rule, ...] = ()
    identities: tuple[str, ...] = ()
    is_free: bool = True

    def __post_init__(self) -> None:
        check_uuid("subscription-id", self.subscription)
        check_group(self.group)
        _check("location", _LOCATION, self.location, "the name of a region, such as westus2")
        _check(
            "server",
            _SERVER,
            self.server,
            "1 to 63 lower-case letters, digits and hyphens, no hyphen at the ends",
        )
        _check("database", _DATABASE, self.database, "1 to 128 letters, digits, hyphens and underscores")
        if self.database.lower() in _RESERVED:
            raise ConfigurationError(
                f"{self.database!r} is a database of the server's own", setting="database"
            )
        for identity in self.identities:
            check_identity("identity", identity)

    @property
    def host(self) -> str:
        return self.server + HOST_SUFFIX

    @property
    def url(self) -> str:
        """The store. It has no user: who signs in is found out there."""
        return f"mssql://{self.host}/{self.database}"


def default_server(subscription: str, group: str) -> str:
    """A name that nobody else in the world should have, and that is the same each time."""
    digest = sha256(f"{subscription}/{group}".lower().encode()).hexdigest()[:10]
    words = re.sub(r"[^a-z0-9]+", "-", group.lower())[:50].strip("-")
    return f"{words}-{digest}" if words else f"holdfast-{digest}"


def region(text: str) -> str:
    """The name of a region as Azure's interface writes it: West US 2 is westus2."""
    return "".join(text.split()).lower()


def allowed(text: str) -> Rule:
    """A rule for one IPv4 address, or for a network such as 203.0.113.0/24; named after it."""
    try:
        network = IPv4Network(text.strip())
    except (AddressValueError, NetmaskValueError, ValueError):
        raise ConfigurationError(
            f"{text!r} is neither an IPv4 address nor a network such as 203.0.113.0/24", setting="allow-ip"
        ) from None
    if int(network.network_address) == 0:
        raise ConfigurationError(
            f"{text!r} has a meaning of its own in Azure; --allow-azure-services asks for it",
            setting="allow-ip",
        )
    if network.prefixlen < _WIDEST:
        raise ConfigurationError(
            f"{text!r} is a large part of the internet; /{_WIDEST} is the widest that is taken",
            setting="allow-ip",
        )
    name = re.sub(r"[^0-9]", "-", str(network).removesuffix("/32"))
    return Rule(f"allow-{name}", str(network.network_address), str(network.broadcast_address))


def is_allowed(address: str, rule: Rule) -> bool:
    return IPv4Address(rule.start) <= IPv4Address(address) <= IPv4Address(rule.end)


def check_group(name: str) -> None:
    words = "1 to 90 letters, digits, underscores, hyphens, parentheses and full stops, none at the end"
    _check("group", _GROUP, name, words)


def check_uuid(setting: str, text: str) -> None:
    _check(setting, _UUID, text, "an id such as 00000000-0000-0000-0000-000000000000")


def check_identity(setting: str, name: str) -> None:
    """A name that Entra ID could have given; what it is made of does not matter, for it is always quoted."""
    if not name.strip() or len(name) > 128 or _CONTROL.search(name):
        raise ConfigurationError(
            f"{name!r} is not a name: 1 to 128 characters, none of them a control character", setting=setting
        )


def _check(setting: str, pattern: re.Pattern[str], text: str, words: str) -> None:
    if not pattern.fullmatch(text):
        raise ConfigurationError(f"{text!r} is not {words}", setting=setting)

"""Signing in with Entra ID: tokens in place of passwords."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from holdfast.model.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.mssql.address import Address

MARGIN: Final = 300.0
"""Seconds before its end from which on a token is not used for another sign-in."""

_SCOPES = {
    ".usgovcloudapi.net": "https://database.usgovcloudapi.net/.default",
    ".chinacloudapi.cn": "https://database.chinacloudapi.cn/.default",
    ".cloudapi.de": "https://database.cloudapi.de/.default",
}
_SCOPE = "https://database.windows.net/.default"


@dataclass(frozen=True, slots=True)
class Token:
    """What a sign-in is done with, and the time of the wall clock when it ends."""

    text: str = field(repr=False)
    expires: float


class Source(Protocol):
    """A credential of azure-identity, as far as it is used here."""

    def get_token(self, *scopes: str) -> Any:
        """An object with the attributes `token` and `expires_on`."""
        ...


class Credential:
    """Gives tokens for one server, each from the source once. Threads that need one wait for the same.

    An open connection stays signed in when its token ends: the server looks at it only when it is opened, and
    for connections that are reset hours later. The pool still replaces each before its token ends, when it
    rests, so that who was removed from the directory is out within the life of a token.
    """

    def __init__(self, address: Address, source: Source, clock: Callable[[], float] = time.time) -> None:
        self._place = address.place
        self._scope = scope(address.host)
        self._source = source
        self._clock = clock
        self._guard = threading.Lock()
        self._token: Token | None = None

    def __repr__(self) -> str:
        return f"<Credential for {self._place}>"

    def token(self) -> Token:
        """A token with at least five minutes to go, if the source has one. May take seconds.

        While the source fails, the one before is used until its end.
        """
        with self._guard:
            known = self._token
            if known is None or self.is_ending(known):
                known = self._token = self._fetched(known)
            return known

    def is_ending(self, token: Token) -> bool:
        return self._clock() >= token.expires - MARGIN

    def renew_at(self, token: Token) -> float:
        """When a connection that was opened with it needs another: at its end, if there was none better."""
        return token.expires if self.is_ending(token) else token.expires - MARGIN

    def _fetched(self, known: Token | None) -> Token:
        try:
            found = self._source.get_token(self._scope)
        except Exception as error:  # sources raise what their libraries do
            if known is not None and self._clock() < known.expires:
                return known
            # What has worked once will not be set up wrongly now.
            raise _refused(error, self._place, is_new=known is None) from error
        return Token(str(found.token), float(found.expires_on))


def scope(host: str) -> str:
    """What a token must be asked for to be accepted by the server; each cloud has its own."""
    plain = host.lower().rstrip(".")
    return next((found for end, found in _SCOPES.items() if plain.endswith(end)), _SCOPE)


def signed_in(address: Address) -> Credential | None:
    """The credential for the address; None if it has a user of its own."""
    if address.user:
        return None
    return Credential(address, _source(address.client_id))


def _source(client_id: str) -> Source:
    try:
        from azure import identity  # noqa: PLC0415  it takes long, and is not needed with a password
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "signing in with Entra ID needs the package azure-identity: pip install 'holdfast[sqlserver]'",
            setting="store",
        ) from error
    if client_id:
        return identity.ManagedIdentityCredential(client_id=client_id)
    return identity.DefaultAzureCredential()


def _refused(error: Exception, place: str, *, is_new: bool) -> ConfigurationError | StoreUnavailable:
    """A sign-in that will not work as it is set up, or one that may work later.

    Told without the words of the source, which may quote what was sent.
    """
    names = {base.__name__ for base in type(error).__mro__}
    if is_new and names & {"ClientAuthenticationError", "CredentialUnavailableError"}:
        return ConfigurationError(
            f"{place}: no sign-in with Entra ID ({type(error).__name__}); sign in with `az login`, give this "
            "machine a managed identity, or name one with client_id=",
            setting="store",
        )
    return StoreUnavailable(f"{place}: no token from Entra ID ({type(error).__name__}); nothing was written")

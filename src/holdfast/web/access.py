"""Who may do what: roles, and the tokens that prove them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.names import check_name

PREFIX = "hf_"
SHORT = 16
"""A token of fewer characters than this can be guessed."""

_HASH = re.compile(r"sha256:([0-9a-f]{64})")


class Role(StrEnum):
    """What somebody may do; each role may do all that the ones before it may.

    `read` looks, `operate` steers work and enqueues, `admin` deletes and sees payloads unredacted.
    """

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def covers(self, least: Role) -> bool:
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(least)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, and as what."""

    user: str
    role: Role


@dataclass(frozen=True, slots=True)
class Token:
    """A name, its role, and the hash of the secret; never the secret itself.

    The hash is a plain SHA-256: a token is 256 random bits, so that there is nothing to try out, and slow
    hashes, which protect what people make up, would only slow down each request.
    """

    name: str
    role: Role
    digest: bytes

    @classmethod
    def of(cls, name: str, role: Role, secret: str) -> Self:
        return cls(_name(name), role, _digest(secret))

    @property
    def line(self) -> str:
        """As it stands in a file of tokens."""
        return f"{self.name} {self.role} sha256:{self.digest.hex()}"

    @property
    def identity(self) -> Identity:
        return Identity(self.name, self.role)


class Tokens:
    """The tokens that are accepted."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = tuple(tokens)
        names = [token.name for token in self._tokens]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ConfigurationError(f"two tokens are called {double!r}; give each a name of its own")

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def find(self, secret: str) -> Token | None:
        """The token of that secret. How long it takes tells nothing about which one it nearly was."""
        digest = _digest(secret)
        found: Token | None = None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def new_secret() -> str:
    """A new token: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def parse_tokens(text: str, source: str) -> list[Token]:
    """The tokens of a file: on each line a name, a role and a hash; ConfigurationError names the line."""
    found: list[Token] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            name, role, digest = words
            hashed = _HASH.fullmatch(digest)
            if hashed is None:
                raise ValueError
            found.append(Token(_name(name), Role(role), bytes.fromhex(hashed[1])))
        except ValueError:
            raise ConfigurationError(
                f"{source}, line {number}: not of the form 'name role sha256:…', with a role of "
                f"{', '.join(Role)}; 'holdfast token' makes such lines"
            ) from None
    return found


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _name(value: str) -> str:
    try:
        return check_name(value, "name")
    except InvalidJob as error:
        raise ConfigurationError(error.problem, setting="token.name") from None

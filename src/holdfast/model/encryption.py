"""Keys of encryption, as settings name them. What is done with them is in `holdfast.stores.sealed`."""

from __future__ import annotations

import binascii
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import NamedTuple

from holdfast.model.errors import ConfigurationError

PREFIX = "hfk1_"
PLAIN = "plain"
KEY_BYTES = 32
_FEWEST_DIFFERENT = 12
_SEPARATORS = re.compile(r"[\s,]+")
_COMMENT = re.compile(r"#.*")


class EncryptionKey:
    """32 secret bytes. Its `id` may be shown: it is made from them, and tells nothing about them."""

    __slots__ = ("id", "secret")

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.id = hmac.digest(secret, b"holdfast key id 1", sha256)[:4].hex()

    @classmethod
    def from_text(cls, text: str) -> EncryptionKey:
        """The key that a text stands for; ValueError says what is wrong, without quoting it."""
        bare = text.removeprefix(PREFIX).rstrip("=").replace("+", "-").replace("/", "_")
        try:
            secret = urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
        except (binascii.Error, ValueError):
            raise ValueError("is not base64") from None
        if urlsafe_b64encode(secret).rstrip(b"=").decode("ascii") != bare:
            raise ValueError("is not base64")
        if len(secret) != KEY_BYTES:
            short = "too short" if len(secret) < KEY_BYTES else "too long"
            raise ValueError(f"is {short}: it has {len(secret)} bytes instead of {KEY_BYTES}")
        if len(set(secret)) < _FEWEST_DIFFERENT:
            raise ValueError("is not random")
        return cls(secret)

    def to_text(self) -> str:
        return PREFIX + urlsafe_b64encode(self.secret).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"<EncryptionKey {self.id}>"


class EncryptionKeys(NamedTuple):
    """The keys in their order: the first one encrypts, all of them decrypt.

    With `writes_plain` nothing is encrypted; with `reads_plain` what is not encrypted is read as well.
    """

    keys: tuple[EncryptionKey, ...]
    writes_plain: bool = False
    reads_plain: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(key.id for key in self.keys)

    @property
    def summary(self) -> str:
        """Which keys do what, by their ids."""
        if self.writes_plain:
            return f"off; read: plain, {', '.join(self.ids)}"
        others = [*self.ids[1:], *([PLAIN] if self.reads_plain else [])]
        return f"by key {self.ids[0]}" + (f"; also read: {', '.join(others)}" if others else "")


def parse_keys(text: str, setting: str = "encryption_keys") -> EncryptionKeys:
    """The keys in a text, separated by commas, spaces or lines; ConfigurationError names the bad one."""
    names = [name for name in _SEPARATORS.split(_COMMENT.sub("", text)) if name]
    keys: list[EncryptionKey] = []
    for place, name in enumerate(names, 1):
        if name == PLAIN:
            continue
        try:
            key = EncryptionKey.from_text(name)
        except ValueError as error:
            raise ConfigurationError(
                f"key {place} {error}; 'holdfast keys new' makes one", setting=setting
            ) from None
        if key.id in {known.id for known in keys}:
            raise ConfigurationError(f"key {place} ({key.id}) is there twice", setting=setting)
        keys.append(key)
    if not keys:
        raise ConfigurationError("there is no key; 'holdfast keys new' makes one", setting=setting)
    return EncryptionKeys(tuple(keys), writes_plain=names[0] == PLAIN, reads_plain=PLAIN in names)

"""Encryption itself: AES-SIV, which needs no nonce and forgives a repeated one."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from holdfast.model.encryption import EncryptionKey, EncryptionKeys
from holdfast.model.sealed import Kind, as_stored, header, opened, sealed_with, unread

Place = Callable[[int], Sequence[str] | None]
"""Where encrypted bytes of a kind belong, by names; None where that kind cannot be."""


class Keyring:
    """Encrypts with the first key, decrypts with whichever the bytes name."""

    def __init__(self, keys: EncryptionKeys) -> None:
        self._ciphers = {key.id: _cipher(key) for key in keys.keys}
        first = keys.keys[0].id
        self._cipher = self._ciphers[first]
        self._writes_plain = keys.writes_plain
        self._reads_plain = keys.reads_plain
        self._headers = {kind: header(kind, first) for kind in Kind}

    def seal(self, data: bytes, kind: Kind, namespace: str, *place: str) -> bytes:
        """The data, encrypted, bound to their place. What could not be decrypted stays as it was stored."""
        stored = as_stored(data)
        if self._writes_plain or stored is not data or sealed_with(stored) is not None:
            return stored
        head = self._headers[kind]
        return head + self._cipher.encrypt(data, _bound(head, namespace, place))

    def open(self, stored: bytes, namespace: str, place: Place) -> bytes:
        """What was encrypted for that place; else bytes that tell why they must not be used."""
        if not stored:
            return stored
        envelope = opened(stored)
        if envelope is None:
            if self._reads_plain:
                return stored
            return unread(stored, "not encrypted; add plain to encryption_keys to accept what is not")
        cipher = self._ciphers.get(envelope.key_id)
        if cipher is None:
            return stored
        try:
            names = place(envelope.kind)
            if names is not None:
                return cipher.decrypt(envelope.body, _bound(envelope.header, namespace, names))
        except InvalidTag:
            pass
        except Exception:  # noqa: BLE001, S110  whatever a row says, it ends no reader  # nosec B110
            pass
        why = "is damaged, or was written for something else"
        return unread(stored, f"what was encrypted with key {envelope.key_id} {why}")


def _cipher(key: EncryptionKey) -> AESSIV:
    return AESSIV(hmac.digest(key.secret, b"holdfast AES-256-SIV 1", "sha512"))


def _bound(head: bytes, namespace: str, place: Sequence[str]) -> list[bytes]:
    return [head, namespace.encode(), *(name.encode() for name in place)]

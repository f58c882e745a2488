"""What encrypted bytes look like from outside: whose key they need, and why they could not be read."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from holdfast.model.errors import Undecodable

_SEALED = b"\x00HF\x01"
_UNREAD = b"\x00HF!"
KEY_ID_BYTES = 4
HEADER_BYTES = len(_SEALED) + 1 + KEY_ID_BYTES


class Kind(IntEnum):
    """What is encrypted. One kind never passes for another."""

    ARGUMENTS = 1
    RESULT = 2
    EVENT = 3
    TEMPLATE = 4
    """Of a schedule: arguments or event data that jobs and events of its firings have in common."""


class Envelope(NamedTuple):
    """Encrypted bytes taken apart. The header is authenticated with the rest."""

    header: bytes
    kind: int
    key_id: str
    body: bytes


def header(kind: Kind, key_id: str) -> bytes:
    """What goes before the encrypted bytes: no JSON, and no text, begins so."""
    return _SEALED + bytes([kind]) + bytes.fromhex(key_id)


def opened(stored: bytes) -> Envelope | None:
    """The parts of encrypted bytes; None for others."""
    if not stored.startswith(_SEALED) or len(stored) < HEADER_BYTES:
        return None
    key_id = stored[len(_SEALED) + 1 : HEADER_BYTES].hex()
    return Envelope(stored[:HEADER_BYTES], stored[len(_SEALED)], key_id, stored[HEADER_BYTES:])


def sealed_with(stored: bytes) -> str | None:
    """The id of the key that encrypted bytes need; None for others."""
    envelope = opened(stored)
    return None if envelope is None else envelope.key_id


def unread(stored: bytes, why: str) -> bytes:
    """Stands for stored bytes that must not be used, and tells why; `as_stored` gives them back."""
    told = why.encode()
    return _UNREAD + len(told).to_bytes(2) + told + stored


def why_unread(value: bytes) -> str | None:
    """Why bytes must not be used, if `unread` made them so."""
    if not value.startswith(_UNREAD):
        return None
    start = len(_UNREAD) + 2
    return value[start : start + int.from_bytes(value[start - 2 : start])].decode("utf-8", "replace")


def as_stored(value: bytes) -> bytes:
    """The bytes for which `unread` ones stand; others as they are."""
    if not value.startswith(_UNREAD):
        return value
    start = len(_UNREAD) + 2
    return value[start + int.from_bytes(value[start - 2 : start]) :]


def unreadable(stored: bytes) -> str | None:
    """Whose key bytes need, or why they must not be used; None for all others."""
    key = sealed_with(stored)
    return why_unread(stored) if key is None else f"encrypted with key {key}"


def check_read(stored: bytes, field: str) -> None:
    """Undecodable, which tells why, for bytes that are encrypted or must not be used."""
    why = unreadable(stored)
    if why is not None:
        is_missing = sealed_with(stored) is not None
        raise Undecodable(field, f"{why}, which this process does not have" if is_missing else why)

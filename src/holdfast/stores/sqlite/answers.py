"""Answers of SQLite as values: many rows come as one JSON array, and text as bytes."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def reader(kind: type[T]) -> Callable[[Any], T]:
    """Reads answers of that type.

    What is no UTF-8 in them is replaced: one damaged name must not keep the other rows from being read.
    """
    decode = msgspec.json.Decoder(kind).decode

    def read(answer: bytes) -> T:
        try:
            return decode(answer)
        except UnicodeDecodeError:
            return decode(text(answer))

    return read


def text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")

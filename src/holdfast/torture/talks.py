"""What is said on a connection to PostgreSQL or Redis, followed as far as is needed to lose an answer."""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

_WRITES: Final = re.compile(
    rb"\s*(COMMIT|INSERT|UPDATE|DELETE|WITH"
    rb"|SELECT (\* FROM )?holdfast\.(?!now_|namespace_|read)\w+_v\d+\()",
    re.IGNORECASE,
)
_OPENINGS: Final = {80877103, 80877104}
"""Wishes for encryption, which the server answers with one byte."""
_IDLE: Final = b"I"


class PostgresTalk:
    """Its messages have a letter and a length; a request ends with a query or a sync, an answer with a Z.

    The Z says whether a transaction is open. If none is, what was asked has been committed.
    """

    def __init__(self) -> None:
        self._asked = bytearray()
        self._answered = bytearray()
        self._held = bytearray()
        self._prepared: dict[bytes, bytes] = {}
        self._requests: deque[bool] = deque()
        """Of each request under way, whether its answer is to be lost."""
        self._writes = False
        self._is_open = False
        self._letters = 0

    def asks(self, data: bytes) -> bool:
        self._asked += data
        has_write = False
        if not self._is_open:
            self._take_opening()
        if self._is_open:
            for letter, body in _messages(self._asked):
                self._writes |= self._is_write(letter, body)
                if letter in b"QS":
                    self._requests.append(False)
                    has_write, self._writes = self._writes, False
        return has_write

    def doom(self) -> None:
        self._requests[-1] = True

    def answers(self, data: bytes) -> tuple[bytes, bool]:
        passing = bytes(data)
        while self._letters and data:
            # The answer to a wish for encryption is no message; the server of a campaign declines.
            self._letters -= 1
            data = data[1:]
        self._answered += data
        for letter, body in _messages(self._answered):
            if letter != b"Z" or not self._requests:
                continue
            if self._requests.popleft() and body == _IDLE:
                return b"", True
        if any(self._requests):
            self._held += passing
            return b"", False
        passing, self._held = bytes(self._held) + passing, bytearray()
        return passing, False

    def _take_opening(self) -> None:
        while len(self._asked) >= 8 and not self._is_open:
            length, code = struct.unpack_from("!ii", self._asked)
            if len(self._asked) < length:
                return
            del self._asked[:length]
            if code in _OPENINGS:
                self._letters += 1
            else:
                self._is_open = True
                self._requests.append(False)

    def _is_write(self, letter: bytes, body: bytes) -> bool:
        if letter == b"Q":
            return _WRITES.match(body) is not None
        if letter == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = text
        elif letter == b"B":
            _, name, _ = body.split(b"\0", 2)
            return _WRITES.match(self._prepared.get(name, b"")) is not None
        return False


def _messages(buffer: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """The whole messages of a buffer, taken out of it."""
    start = 0
    while len(buffer) - start >= 5:
        end = start + 1 + struct.unpack_from("!i", buffer, start + 1)[0]
        if len(buffer) < end:
            break
        yield bytes(buffer[start : start + 1]), bytes(buffer[start + 5 : end])
        start = end
    del buffer[:start]


class RedisTalk:
    """Requests are arrays of texts, and are answered one by one in their order."""

    WRITES: Final = frozenset({b"EVALSHA", b"EVAL", b"FCALL", b"EXEC"})

    def __init__(self) -> None:
        hiredis: Any = import_module("hiredis")
        self._nothing = object()
        self._asked = hiredis.Reader(notEnoughData=self._nothing)
        self._answered = hiredis.Reader(notEnoughData=self._nothing, replyError=str)
        self._requests = 0
        self._doomed: int | None = None
        self._last_write = 0

    def asks(self, data: bytes) -> bool:
        self._asked.feed(data)
        has_write = False
        while (request := self._asked.gets()) is not self._nothing:
            self._requests += 1
            if request and request[0].upper() in self.WRITES:
                has_write = True
                self._last_write = self._requests
        return has_write

    def doom(self) -> None:
        if self._doomed is None:
            self._doomed = self._last_write

    def answers(self, data: bytes) -> tuple[bytes, bool]:
        self._answered.feed(data)
        while self._answered.gets() is not self._nothing:
            self._requests -= 1
            self._last_write -= 1
            if self._doomed is not None:
                self._doomed -= 1
                if self._doomed == 0:
                    return b"", True
        return data, False

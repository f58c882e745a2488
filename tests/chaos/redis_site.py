"""A database of a Redis server instead of a file, with processes on it, and a record of who had a lock."""

import re
import socket
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import urlsplit

import msgspec

from holdfast.model.overrides import Overrides
from tests.chaos.harness import Site
from tests.servers.redis import execute

_END = "the record ends"
_ARGUMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"')


def lock_key(name: str) -> str:
    return f"{{holdfast:default}}:o:{name}"


class RedisSite(Site):
    """A database that is empty at first."""

    def __init__(self, folder: Path, url: str, **settings: Unpack[Overrides]) -> None:
        super().__init__(folder, url=url, **settings)

    def line(self, name: str) -> list[bytes]:
        """Who stands in line for a lock."""
        stored = execute(self.url, "GET", lock_key(name))
        line: list[Any] = [] if stored is None else msgspec.msgpack.decode(stored, strict=False)[3]
        return line[::2]


class Monitor(ABC):
    """What a server reports of all that it is sent and that its scripts do, read by a thread of its own."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._url = url
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0))
        self._lines = self._socket.makefile("rb")
        self._is_over = False
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._socket.sendall(b"MONITOR\r\n")
        assert self._lines.readline() == b"+OK\r\n"
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._lines.close()
        self._socket.close()

    def _look(self) -> None:
        try:
            self._watch()
        except ConnectionResetError:
            # So a server answers the end, if it had more to tell.
            if not self._is_over:
                raise

    @abstractmethod
    def _watch(self) -> None:
        """Reads `_lines` to their end, or until it has seen enough."""


class LockAudit(Monitor):
    """Every grant and renewal of one lock, in the server's order: token and end of the lease.

    Redis has no triggers; but it tells one who asks whatever its scripts do.
    """

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url)
        self._key = lock_key(name).encode()
        self._seen: list[tuple[int, int]] = []

    def taken(self) -> list[tuple[int, int]]:
        """All that was seen until now; from now on it does not look."""
        if self._thread.is_alive():
            execute(self._url, "ECHO", _END)
            self._thread.join()
        return self._seen

    def _watch(self) -> None:
        for line in self._lines:
            words = [_plain(word) for word in _ARGUMENT.findall(line)]
            if words == [b"ECHO", _END.encode()]:
                return
            if words[:2] == [b"SET", self._key]:
                _, token, until, _ = msgspec.msgpack.decode(words[2])
                if until:  # else it was given back
                    self._seen.append((int(token), int(until)))


def _plain(word: bytes) -> bytes:
    """What stands between quotes in the server's report, as it was."""
    return word.decode("ascii").encode().decode("unicode_escape").encode("latin-1")

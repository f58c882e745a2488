"""Finding the socket of a driver that hides it, in what the system lists for this process.

Only who has the socket can end a wait for a server that is silent: without it the thread would hang, and the
driver would hang again, for that thread, when Python ends.
"""

import os
import socket
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

Ends: TypeAlias = tuple[Any, Any]
"""Our address and the server's: no two sockets have both in common."""

_LISTS = (Path("/proc/self/fd"), Path("/dev/fd"))
_TURN: Final = 0.5
"""Seconds to wait for others who connect. Two at once could not tell whose socket is whose."""

_connecting = threading.Lock()


class Found:
    """The socket that was opened meanwhile; None where that cannot be told."""

    def __init__(self) -> None:
        self.ends: Ends | None = None


@contextmanager
def finding(port: int) -> Generator[Found]:
    """Finds the socket that a driver opens in here to the port, or to where it was sent on from there."""
    found = Found()
    has_turn = _connecting.acquire(timeout=_TURN)
    try:
        before = {ends for _, ends in _connected()}
        yield found
        new = {ends for _, ends in _connected()} - before
        new = {ends for ends in new if ends[1][1] == port} or new
        if has_turn and len(new) == 1:
            [found.ends] = new
    finally:
        if has_turn:
            _connecting.release()


def shut(ends: Ends) -> None:
    """Ends the connection of this process with these ends: who reads from it is told that it is over."""
    for number, known in _connected():
        if known == ends:
            with suppress(OSError), socket.socket(fileno=os.dup(number)) as opened:
                opened.shutdown(socket.SHUT_RDWR)


def _connected() -> list[tuple[int, Ends]]:
    """The number and the ends of each connection of this process; none where the system does not tell."""
    folder = next((each for each in _LISTS if each.is_dir()), None)
    found: list[tuple[int, Ends]] = []
    for entry in [] if folder is None else list(os.scandir(folder)):
        with suppress(OSError):
            if not stat.S_ISSOCK(os.stat(int(entry.name)).st_mode):  # noqa: PTH116  a number, not a path
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as opened:
                if opened.family in {socket.AF_INET, socket.AF_INET6}:
                    found.append((int(entry.name), (opened.getsockname(), opened.getpeername())))
    return found

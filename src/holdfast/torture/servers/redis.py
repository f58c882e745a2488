"""A Redis server of the campaign's own, which writes down every change before it answers."""

from __future__ import annotations

import shutil
import signal
import socket
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.model.errors import ConfigurationError
from holdfast.torture.servers.process import HOST, ServerProcess, free_port, give

_ENVIRON: Final = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}


class RedisServer:
    """It has a password."""

    def __init__(self, folder: Path, logs: Path, password: str) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise ConfigurationError(
                "a Redis server of the campaign's own needs its program, and none is on PATH. Install it (on "
                "Debian: apt-get install redis-server), or name a server with --store"
            )
        self._folder = folder
        self._password = password
        self.port = free_port()
        self.url = f"redis://:{password}@{HOST}:{self.port}/0"
        command = [program, str(folder / "redis.conf")]
        self._process = ServerProcess(command, folder, logs / "server-redis.txt", _ENVIRON)

    def start(self) -> None:
        settings = self._folder / "redis.conf"
        if not settings.exists():
            lines = {
                "bind": HOST,
                "port": str(self.port),
                "dir": str(self._folder),
                "requirepass": self._password,
                "save": '""',
                "appendonly": "yes",
                "appendfsync": "always",
                "maxmemory-policy": "noeviction",
            }
            settings.write_text(
                "".join(f"{name} {value}\n" for name, value in lines.items()), encoding="ascii"
            )
            settings.chmod(0o600)
            give(self._folder)
            give(settings)
        self._process.start(self._is_ready)

    def crash(self) -> None:
        self._process.stop(signal.SIGKILL)

    def recover(self) -> None:
        """Starts it if it does not run."""
        if not self._process.is_running:
            self.start()

    def _is_ready(self) -> bool:
        try:
            return command(HOST, self.port, self._password, "PING") == "PONG"
        except OSError:
            return False


def command(host: str, port: int, password: str | None, *words: str) -> str:
    """The answer to one command, which is a text; OSError if there is none."""
    with socket.create_connection((host, port), timeout=5) as wire, wire.makefile("rb") as answers:
        if password is not None:
            wire.sendall(_encoded("AUTH", password))
            _read(answers)
        wire.sendall(_encoded(*words))
        return _read(answers)


def _encoded(*words: str) -> bytes:
    parts = [f"*{len(words)}\r\n".encode()]
    parts += [f"${len(word.encode())}\r\n{word}\r\n".encode() for word in words]
    return b"".join(parts)


def _read(answers: BinaryIO) -> str:
    line = answers.readline().rstrip().decode()
    kind, rest = line[:1], line[1:]
    if kind == "$":
        return answers.read(int(rest) + 2)[:-2].decode()
    if kind in {"+", ":"}:
        return rest
    raise OSError(rest or "the server hung up")

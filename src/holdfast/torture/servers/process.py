"""One server process, which ends with the campaign at the latest."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from holdfast.model.errors import ConfigurationError

HOST: Final = "127.0.0.1"
PATIENCE: Final = 60.0
_ACCOUNTS: Final = ("postgres", "nobody")


class ServerProcess:
    """A program that can be started again and again, on the port that it always had."""

    def __init__(self, command: Sequence[str], folder: Path, log: Path, environ: Mapping[str, str]) -> None:
        self._command = [*_leash(), *command]
        self._folder = folder
        self._log = log
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, is_ready: Callable[[], bool]) -> None:
        """Starts it, and waits until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = monotonic() + PATIENCE
        while not is_ready():
            if not self.is_running or monotonic() > end:
                last = self._log.read_text(encoding="utf-8", errors="replace")[-500:]
                raise OSError(f"{self._command[-1]} did not start:\n{last}")
            sleep(0.05)

    def stop(self, number: signal.Signals) -> None:
        """Sends the signal, and waits until it has ended."""
        if self._process is not None and self.is_running:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)


def account() -> str | None:
    """The account to run servers under, because they refuse root; None for our own."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in _ACCOUNTS:
        if name in known:
            return name
    raise ConfigurationError(f"as root, servers run under another account: make one of {_ACCOUNTS}")


def give(path: Path) -> None:
    """Makes the account of the servers the owner."""
    name = account()
    if name is not None:
        shutil.chown(path, name)


def leash() -> list[str]:
    """What has a program killed, even one that is frozen, when the thread that started it is gone."""
    found = shutil.which("setpriv")
    return [] if found is None else [found, "--pdeathsig=KILL"]


def _leash() -> list[str]:
    """The same, under the account of servers."""
    found = leash()
    name = account()
    if not found:
        if name is not None:
            raise ConfigurationError("as root, a server of the campaign's own needs setpriv (util-linux)")
        return []
    entry = None if name is None else pwd.getpwnam(name)
    whose = [] if entry is None else [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return [*found, *whose]


def as_account(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Runs a program to its end, as the server's account."""
    ended = subprocess.run(
        [*_leash(), *command], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise OSError(f"{command[0]} ended with {ended.returncode}: {ended.stderr[-500:]}")


def free_port() -> int:
    """A port below those for outgoing connections, so that no client can take it while the server is down."""
    lowest = 12_000
    for port in range(lowest + os.getpid() % 10_000, lowest + 20_000):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on {HOST}")

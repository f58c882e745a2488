"""One test run: its folder, its lifeline, and the account that its servers run under."""

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from tests.servers import keeper

_PREFIX = "holdfast-servers-"
_UNPRIVILEGED = ("postgres", "nobody")


class Run:
    """The folder in which all servers of a run live; shared by the processes of that run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._keepers: list[subprocess.Popen[bytes]] = []  # a process that nobody holds is a warning

    @cached_property
    def account(self) -> str:
        """The account to run servers under, because they refuse root; empty for our own."""
        if os.geteuid() != 0:
            return ""
        known = {entry.pw_name for entry in pwd.getpwall()}
        for name in _UNPRIVILEGED:
            if name in known:
                return name
        raise RuntimeError(
            f"as root, servers run under another account: make one of {', '.join(_UNPRIVILEGED)}"
        )

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Only one process of the run is in here at a time."""
        with (self.folder / f"{name}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def new_folder(self, name: str) -> Path:
        """An empty folder that servers may write to."""
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        self.give(made)
        return made

    def give(self, path: Path) -> None:
        """Makes the account of the servers the owner of a file or folder."""
        if self.account:
            os.chown(path, pwd.getpwnam(self.account).pw_uid, -1)

    def reachable(self, folder: Path) -> Path:
        """The folder with programs, or a copy if the account of the servers could not reach it."""
        if not self.account or is_open_to_all(folder):
            return folder
        copy = self.folder / f"copy-of-{folder.name}"
        with self.locked(copy.name):
            if not copy.exists():
                coming = self.folder / f"coming-{folder.name}"
                shutil.copytree(folder, coming, symlinks=True)
                coming.rename(copy)
        return copy

    def keep(
        self, command: Sequence[str], log: Path, environ: dict[str, str], ending: signal.Signals
    ) -> "subprocess.Popen[bytes]":
        """Starts a server that ends with the run at the latest; gives its keeper, which ends when it does."""
        program = [sys.executable, "-I", "-S", keeper.__file__]
        line = [*program, str(self.folder), self.account, str(ending.value), *command]
        with log.open("ab") as output:
            started = subprocess.Popen(
                line,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C is for pytest, which then ends the run
            )
        self._keepers.append(started)
        return started

    def call(self, command: Sequence[str], environ: dict[str, str]) -> str:
        """Runs a program as the account of the servers; what it printed."""
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=environ,
            **keeper.identity(self.account),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")
        return ended.stdout


_OWN: set[Path] = set()
"""Folders of this process's runs: their locks would not keep it from taking them for left ones."""


class OwnedRun(Run):
    """The run as its first process has it: it lives until it is closed, or until that process has ended."""

    def __init__(self) -> None:
        place = _place()
        _sweep(place)
        made = Path(tempfile.mkdtemp(prefix=f"coming-{_PREFIX}", dir=place))
        made.chmod(0o711)
        # Opened once: closing any other handle of this file in this process would drop the lock.
        self._lifeline: BinaryIO = (made / "lifeline").open("w+b")
        fcntl.lockf(self._lifeline, fcntl.LOCK_EX, 1, keeper.RUN)
        super().__init__(made.rename(place / made.name.removeprefix("coming-")))
        _OWN.add(self.folder)

    def close(self) -> None:
        """Ends all servers, waits for that, and removes what they had."""
        with self._lifeline:
            fcntl.lockf(self._lifeline, fcntl.LOCK_UN, 1, keeper.RUN)
            fcntl.lockf(self._lifeline, fcntl.LOCK_EX, 1, keeper.KEEPERS)
        for kept in self._keepers:
            kept.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        _OWN.discard(self.folder)


def is_open_to_all(folder: Path) -> bool:
    """Whether every account can reach what is in the folder."""
    return all(part.stat().st_mode & 0o001 for part in [folder, *folder.parents])


def _sweep(place: Path) -> None:
    """Removes what is left of runs that were killed when they had no keeper."""
    for folder in set(place.glob(f"{_PREFIX}*")) - _OWN:
        with suppress(OSError), (folder / "lifeline").open("r+b") as lifeline:
            fcntl.lockf(lifeline, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _place() -> Path:
    """A temporary folder that the servers' account can reach, on disk rather than in memory."""
    chosen = os.environ.get("TMPDIR")
    for name in [chosen, "/var/tmp", tempfile.gettempdir()]:
        if name and os.access(name, os.W_OK) and (os.geteuid() != 0 or is_open_to_all(Path(name).resolve())):
            return Path(name).resolve()
    raise RuntimeError(
        "servers of tests need a temporary folder that every account can reach: set TMPDIR to one"
    )

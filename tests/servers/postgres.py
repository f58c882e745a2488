"""A PostgreSQL server of our own."""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any, Literal, Self

from tests.servers.binaries import find_binaries
from tests.servers.ports import HOST, free_port
from tests.servers.run import Run, is_open_to_all
from tests.servers.sql import execute

PATIENCE = 30
_ENVIRON = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
_SIGNALS = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT}
_SETTINGS = f"""
listen_addresses = '{HOST}'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
logging_collector = off
log_line_prefix = '%m [%p] '
"""


class Postgres:
    """A server with a data folder, a port and a superuser of its own; anyone on this machine may enter it.

    Every method blocks until it is done, and may be called in a thread.
    """

    def __init__(self, run: Run, binaries: Path, folder: Path) -> None:
        self._run = run
        self._binaries = binaries
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "log"
        self._keeper: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @classmethod
    def make(cls, run: Run, name: str = "postgres") -> Self:
        """A started server with nothing in it."""
        binaries = reachable_binaries(run)
        with run.locked("template"):
            template = run.folder / "template"
            if not template.exists():
                _make_template(run, binaries, template)
        made = cls(run, binaries, run.new_folder(name))
        run.call(["cp", "-R", str(template / "data"), str(made._data)], _ENVIRON)
        made.start()
        return made

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        return int(self._status()[0])

    @property
    def log(self) -> str:
        """What the server has logged since it was made."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def execute(self, sql: str, *arguments: object) -> list[Any]:
        """Runs one statement in a session of its own, outside of any transaction block; its rows."""
        return execute(self.url, sql, *arguments)

    def start(self) -> None:
        """Starts it on the port that it always had, and waits until it takes connections."""
        assert self._keeper is None, "it runs"
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        self._keeper = self._run.keep(command, self._log, _ENVIRON)
        deadline = monotonic() + PATIENCE
        while self._status()[-1].strip() not in {"ready", "standby"}:
            if _has_ended(self._keeper, within=0.01) or monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log}")

    def stop(self, mode: Literal["immediate", "fast"] = "fast") -> None:
        """Stops it: `fast` ends its sessions and writes all down, `immediate` is a crash."""
        assert self._keeper is not None, "it is stopped"
        os.kill(self.pid, _SIGNALS[mode])
        self._keeper.wait(PATIENCE)
        self._keeper = None

    def restart(self, mode: Literal["immediate", "fast"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stops it if it runs, and deletes its data."""
        if self._keeper is not None:
            if not _has_ended(self._keeper, within=0):
                os.kill(self.pid, signal.SIGQUIT)
            self._keeper.wait(PATIENCE)
        shutil.rmtree(self._folder)

    def make_standby(self) -> "Postgres":
        """A started server that follows this one, until it is promoted."""
        made = Postgres(self._run, self._binaries, self._run.new_folder("standby"))
        copy = ["pg_basebackup", "-h", HOST, "-p", str(self.port), "-U", "postgres", "-D", str(made._data)]
        options = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        self._run.call([str(self._binaries / copy[0]), *copy[1:], *options], _ENVIRON)
        made.start()
        return made

    def promote(self) -> None:
        """Makes a standby a server of its own, and waits until it takes writes."""
        assert self.execute("SELECT pg_promote(true, $1)", PATIENCE)[0][0], self.log

    def _status(self) -> list[str]:
        """The lines of the file in which a server says who it is and, in the last one, how far it got."""
        try:
            return (self._data / "postmaster.pid").read_text(encoding="ascii").splitlines() or [""]
        except FileNotFoundError:
            return [""]


def reachable_binaries(run: Run) -> Path:
    """The programs, copied if the servers' account could not reach them where they are."""
    found = find_binaries()
    if not run.account or is_open_to_all(found):
        return found
    with run.locked("binaries"):
        copy = run.folder / "binaries"
        if not copy.exists():
            shutil.copytree(found.parent, run.folder / "binaries-coming", symlinks=True)
            (run.folder / "binaries-coming").rename(copy)
    return copy / "bin"


def _make_template(run: Run, binaries: Path, template: Path) -> None:
    coming = run.new_folder("coming")
    data = coming / "data"
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
    # Small segments: each server is a copy.
    run.call([str(binaries / "initdb"), "-D", str(data), "--wal-segsize=4", *options], _ENVIRON)
    with (data / "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write(_SETTINGS)
    coming.rename(template)


def _has_ended(process: "subprocess.Popen[bytes]", within: float) -> bool:
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True

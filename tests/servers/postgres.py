"""A PostgreSQL server of our own."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import psycopg

from tests.servers.binaries import find_binaries
from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess
from tests.servers.run import Run
from tests.servers.sql import execute
from tests.servers.waiting import PATIENCE

Mode = Literal["immediate", "fast"]

_ENVIRON = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
_SIGNALS = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT}
_SETTINGS = f"""
listen_addresses = '{HOST}'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
log_line_prefix = '%m [%p] '
"""


class Postgres:
    """A server with a data folder, a port and a superuser of its own; anyone on this machine may enter it.

    Every method blocks until it is done, and may be called in a thread.
    """

    def __init__(self, run: Run, binaries: Path, name: str) -> None:
        self._run = run
        self._binaries = binaries
        self._folder = run.new_folder(name)
        self._data = self._folder / "data"
        self._standbys: list[Postgres] = []
        self._frozen: list[int] = []
        self.port = free_port()
        command = [str(binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        self._process = ServerProcess(run, command, self._folder / "log", _ENVIRON, signal.SIGQUIT)

    @classmethod
    def make(cls, run: Run, name: str = "postgres") -> Self:
        """A started server with nothing in it."""
        binaries = find_binaries(run)
        made = cls(run, binaries, name)
        run.call(["cp", "-R", str(_template(run, binaries)), str(made._data)], _ENVIRON)
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
        return self._process.log

    def execute(self, sql: str, *arguments: object) -> list[Any]:
        """Runs one statement in a session of its own, outside of any transaction block; its rows."""
        return execute(self.url, sql, *arguments)

    def start(self) -> None:
        """Starts it on the port that it always had, and waits until it takes connections."""
        before = self._status()[0]  # a server that was killed leaves this behind

        def is_ready() -> bool:
            now = self._status()
            return now[0] != before and now[-1].strip() in {"ready", "standby"}

        self._process.start(is_ready)

    def stop(self, mode: Mode = "fast") -> None:
        """Stops it: `fast` ends its sessions and writes all down, `immediate` is a crash."""
        self._process.stop(self.pid, _SIGNALS[mode])

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def freeze(self) -> None:
        """Lets it answer nothing, with all connections open, until it is thawed."""
        postmaster = self.pid
        with psycopg.connect(self.url, autocommit=True) as connection:
            # Then it begins no process that is not known here.
            os.kill(postmaster, signal.SIGSTOP)
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            self._frozen = [postmaster, *(pid for (pid,) in rows.fetchall())]
        for pid in self._frozen[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        frozen, self._frozen = self._frozen, []
        for pid in reversed(frozen):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        """Stops it if it runs, and deletes its data; its standbys too."""
        self.thaw()
        for standby in self._standbys:
            standby.remove()
        if self._process.is_running:
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def make_standby(self) -> "Postgres":
        """A started server that follows this one, until it is promoted."""
        made = Postgres(self._run, self._binaries, "standby")
        self._standbys.append(made)
        copy = [str(self._binaries / "pg_basebackup"), "--pgdata", str(made._data), "--dbname", self.url]
        options = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        self._run.call([*copy, *options], _ENVIRON)
        made.start()
        return made

    def promote(self) -> None:
        """Makes a standby a server of its own, and waits until it takes writes."""
        is_done: bool = self.execute("SELECT pg_promote(true, $1)", PATIENCE)[0][0]
        assert is_done, self.log

    def _status(self) -> list[str]:
        """The lines of the file in which a server says who it is and, in the last one, how far it got."""
        try:
            return (self._data / "postmaster.pid").read_text(encoding="ascii").splitlines() or [""]
        except FileNotFoundError:
            return [""]


def _template(run: Run, binaries: Path) -> Path:
    """A data folder of which each server gets a copy, because making one takes much longer."""
    made = run.folder / "template"
    with run.locked("template"):
        if not made.exists():
            data = run.new_folder("coming") / "data"
            options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
            small = "--wal-segsize=4"
            run.call([str(binaries / "initdb"), "--pgdata", str(data), small, *options], _ENVIRON)
            with (data / "postgresql.conf").open("a", encoding="utf-8") as settings:
                settings.write(_SETTINGS)
            data.rename(made)
    return made

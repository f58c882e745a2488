"""A PostgreSQL server of the campaign's own."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Final

from holdfast.model.errors import ConfigurationError
from holdfast.torture.servers.process import HOST, ServerProcess, as_account, free_port, give

_PLACES: Final = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/local/pgsql/bin")
_ENVIRON: Final = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"}
_SETTINGS: Final = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
fsync = on
synchronous_commit = on
logging_collector = off
"""


class PostgresServer:
    """Anyone on this machine may enter it, with any password."""

    def __init__(self, folder: Path, logs: Path, password: str) -> None:
        self._binaries = _find_binaries()
        self._data = folder / "data"
        self._folder = folder
        self.port = free_port()
        self.url = f"postgresql://postgres:{password}@{HOST}:{self.port}/postgres"
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        self._process = ServerProcess(command, folder, logs / "server-postgres.txt", _ENVIRON)

    def start(self) -> None:
        if not self._data.exists():
            give(self._folder)
            options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
            as_account(
                [str(self._binaries / "initdb"), "--pgdata", str(self._data), *options],
                self._folder,
                _ENVIRON,
            )
            with (self._data / "postgresql.conf").open("a", encoding="utf-8") as settings:
                settings.write(_SETTINGS)
        self._process.start(self._is_ready)

    def crash(self) -> None:
        """Ends it at once, as a crash would."""
        self._process.stop(signal.SIGQUIT)

    def recover(self) -> None:
        """Starts it if it does not run."""
        if not self._process.is_running:
            (self._data / "postmaster.pid").unlink(missing_ok=True)
            self.start()

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return False
        return bool(lines) and lines[-1].strip() == "ready"


def _find_binaries() -> Path:
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(folder for place in _PLACES for folder in Path("/").glob(place))
    if not found:
        raise ConfigurationError(
            "a PostgreSQL server of the campaign's own needs its programs, and none is on PATH or in the "
            "usual places. Install it (on Debian: apt-get install postgresql), or name a server with --store"
        )
    return found[-1]

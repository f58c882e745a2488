"""A PgBouncer of our own, in front of a PostgreSQL server."""

import os
import shutil
import signal
import socket
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from tests.servers.cache import Missing, cached
from tests.servers.debian import libraries, unpack
from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess
from tests.servers.run import Run

# Anyone may enter, and becomes the user that the server's URL names.
_SETTINGS = """
[databases]
* = {server}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
pidfile = {folder}/pid
"""


class Bouncer:
    """Pools transactions of one server: each may run in another session of it.

    Every method blocks until it is done, and may be called in a thread.
    """

    def __init__(self, run: Run, server: str) -> None:
        self._server = urlsplit(server)
        self._folder = run.new_folder("pgbouncer")
        self.port = free_port()
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(server=_target(self._server), host=HOST, port=self.port, folder=self._folder),
            encoding="utf-8",
        )
        program, environ = find_bouncer(run)
        command = [str(program), str(settings)]
        self._process = ServerProcess(run, command, self._folder / "log", environ, signal.SIGTERM)
        self.start()

    @property
    def url(self) -> str:
        """The URL of the same database, through the pool."""
        return self._server._replace(netloc=f"postgres@{HOST}:{self.port}").geturl()

    @property
    def log(self) -> str:
        return self._process.log

    def start(self) -> None:
        self._process.start(self._answers)

    def stop(self) -> None:
        """Ends it at once, with all connections through it."""
        self._process.stop(int(self._pid()), signal.SIGTERM)

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        if self._process.is_running:
            self.stop()
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0 and bool(self._pid())

    def _pid(self) -> str:
        try:
            return (self._folder / "pid").read_text(encoding="ascii")
        except FileNotFoundError:
            return ""


def find_bouncer(run: Run) -> tuple[Path, dict[str, str]]:
    """The program on this machine, else from Debian's packages; and the environment that it needs."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if found:
        return Path(found), {}
    folder = run.reachable(cached("pgbouncer", _unpack))
    return folder / "usr" / "sbin" / "pgbouncer", {"LD_LIBRARY_PATH": libraries(folder)}


def _unpack(folder: Path) -> None:
    try:
        unpack("pgbouncer", folder)
    except Missing as error:
        raise Missing(
            "these tests need PgBouncer. It is not on PATH, and Debian's package could not be fetched. "
            f"Install it (on Debian: apt-get install pgbouncer).\n\n{error}"
        ) from None


def _target(server: SplitResult) -> str:
    """The server as PgBouncer names it."""
    facts = {
        "host": server.hostname or HOST,
        "port": str(server.port or 5432),
        "user": unquote(server.username or "postgres"),
        "password": unquote(server.password or ""),
    }
    return " ".join(f"{name}='{value}'" for name, value in facts.items() if value)

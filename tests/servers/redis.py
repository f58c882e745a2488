"""A Redis or Valkey server of our own."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess
from tests.servers.run import Run
from tests.servers.waiting import PATIENCE, wait_until

_ENVIRON = {"LC_ALL": "C", "TZ": "UTC"}


class Redis:
    """A server with a folder and a port of its own; anyone on this machine may enter it.

    It keeps all in memory only, unless a setting says otherwise. Settings are those of redis.conf, with `_`
    for `-`, and stay until they are set again. Every method blocks until it is done, and may be called in a
    thread.
    """

    def __init__(self, run: Run, program: Path, name: str, *options: str, port: int = 0) -> None:
        self._run = run
        self._program = program
        self._folder = run.new_folder(name)
        self._settings = self._folder / "redis.conf"
        self._password = ""
        self._replicas: list[Redis] = []
        self.port = port or free_port()
        self.pid = 0
        self.set(bind=HOST, port=str(self.port), dir=str(self._folder))
        command = [str(program), str(self._settings), *options]
        self._process = ServerProcess(run, command, self._folder / "log", _ENVIRON, signal.SIGKILL)

    @classmethod
    def make(cls, run: Run, program: Path, name: str = "redis", **settings: str) -> "Redis":
        """A started server with nothing in it."""
        made = cls(run, program, name)
        made.start(**{"save": '""', **settings})
        return made

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        user = f":{self._password}@" if self._password else ""
        return f"redis://{user}{self.address}/0"

    @property
    def log(self) -> str:
        """What the server has logged since it was made."""
        return self._process.log

    def execute(self, *command: bytes | str | float) -> Any:
        """Runs one command in a connection of its own, once; its answer as redis-py gives it."""
        return execute(self.url, *command)

    def info(self, section: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.execute("INFO", section)
        return answer

    def set(self, **settings: str) -> None:
        """Writes settings that hold from the next start on."""
        self._password = settings.get("requirepass", self._password)
        self.write("redis.conf", *(f"{name.replace('_', '-')} {value}" for name, value in settings.items()))

    def write(self, name: str, *lines: str) -> None:
        """Adds lines to a file in its folder, which the server may write, too."""
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        self._run.give(self._folder / name)

    def start(self, **settings: str) -> None:
        """Starts it on the port that it always had, and waits until it has read its data and answers."""
        self.set(**settings)
        self._process.start(self._is_ready)

    def stop(self) -> None:
        """Ends it in good order: what it keeps on disk is written down."""
        self._process.stop(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a crash would (kill -9)."""
        self._process.stop(self.pid, signal.SIGKILL)

    def restart(self, **settings: str) -> None:
        self.stop()
        self.start(**settings)

    def freeze(self) -> None:
        """Lets it answer nothing, with all connections open, until it is thawed."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def make_replica(self, **settings: str) -> "Redis":
        """A started server that follows this one and has all that it has, until it is promoted."""
        made = Redis(self._run, self._program, "replica")
        self._replicas.append(made)
        made.start(**{"save": '""', "replicaof": f"{HOST} {self.port}", **settings})
        wait_until(lambda: made.info("replication")["master_link_status"] == "up", "the replica follows")
        return made

    def promote(self) -> None:
        """Makes a replica a server of its own, which takes writes."""
        self.execute("REPLICAOF", "NO", "ONE")

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    def remove(self) -> None:
        """Ends it if it runs, frozen or not, and deletes its data; its replicas too."""
        for replica in self._replicas:
            replica.remove()
        if self.is_running:
            self.kill()
        shutil.rmtree(self._folder)

    def _is_ready(self) -> bool:
        with suppress(redis.ConnectionError, redis.TimeoutError):
            info = self.execute("INFO")
            # Another run's server may have been quicker to take the port.
            if info["config_file"] == str(self._settings) and not info.get("loading"):
                self.pid = info["process_id"]
                return True
        return False


def execute(url: str, *command: bytes | str | float) -> Any:
    """Runs one command in a connection of its own, once; its answer as redis-py gives it."""
    once = Retry(NoBackoff(), 0)
    with redis.Redis.from_url(url, socket_timeout=PATIENCE, retry=once) as client:
        return client.execute_command(*command)

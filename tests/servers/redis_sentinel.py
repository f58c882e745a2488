"""Redis servers of our own, watched by Sentinels that promote a replica when the master is lost."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import redis

from tests.servers.ports import HOST
from tests.servers.redis import Redis
from tests.servers.run import Run
from tests.servers.waiting import wait_until

NAME = "mymaster"
_SENTINELS, _QUORUM = 3, 2
_WATCHING = (
    "sentinel down-after-milliseconds {name} 500",
    "sentinel failover-timeout {name} 2000",
)


class RedisSentinel:
    """A master, a replica and three Sentinels, which replace a lost master within two seconds or so.

    A second replica would have to be turned to the new master before all of them name it. Every method blocks
    until it is done, and may be called in a thread.
    """

    def __init__(self, run: Run, program: Path) -> None:
        first = Redis.make(run, program, "master", repl_diskless_sync="yes", repl_diskless_sync_delay="0")
        self.servers = [first, first.make_replica()]
        self.sentinels = [Redis(run, program, "sentinel", "--sentinel") for _ in range(_SENTINELS)]
        self._acquaint()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Redis.start, self.sentinels))
        wait_until(lambda: all(_is_watching(each) for each in self.sentinels), "the Sentinels are ready")

    @property
    def url(self) -> str:
        """Database 0 of whichever server is the master."""
        return f"redis+sentinel://{','.join(each.address for each in self.sentinels)}/{NAME}/0"

    @property
    def master(self) -> Redis:
        """The one that all Sentinels name and see; for a while after it was lost there is none."""
        found = self._find_master()
        assert found, "the Sentinels see no master"
        return found

    def kill_master(self) -> Redis:
        """Ends the master as a crash would; gives it, so that it can be started again."""
        lost = self.master
        lost.kill()
        return lost

    def wait_for_master(self, lost: Redis) -> Redis:
        """The one that has replaced the lost one."""
        found: Redis | None = None

        def is_replaced() -> bool:
            nonlocal found
            found = self._find_master()
            return found not in {None, lost}

        wait_until(is_replaced, "the Sentinels promote the replica")
        assert found
        return found

    def remove(self) -> None:
        for each in [*self.sentinels, self.servers[0]]:  # which removes its replicas
            each.remove()

    def _find_master(self) -> Redis | None:
        named = {_seen_port(each) for each in self.sentinels if each.is_running}
        return next((server for server in self.servers if {server.port} == named), None)

    def _acquaint(self) -> None:
        """Tells each what it would find out from the others in some seconds."""
        names = [secrets.token_hex(20) for _ in self.sentinels]
        master, replica = self.servers
        for sentinel, own in zip(self.sentinels, names, strict=True):
            sentinel.write(
                "redis.conf",
                f"sentinel myid {own}",
                f"sentinel monitor {NAME} {HOST} {master.port} {_QUORUM}",
                *(line.format(name=NAME) for line in _WATCHING),
                f"sentinel known-replica {NAME} {HOST} {replica.port}",
                *(
                    f"sentinel known-sentinel {NAME} {HOST} {other.port} {name}"
                    for other, name in zip(self.sentinels, names, strict=True)
                    if name != own
                ),
            )


def _is_watching(sentinel: Redis) -> bool:
    """Whether it sees enough others to agree with, and a replica that it could promote."""
    with suppress(redis.ResponseError):
        sentinel.execute("SENTINEL", "CKQUORUM", NAME)
        return [each["master-link-status"] for each in sentinel.execute("SENTINEL SLAVES", NAME)] == ["ok"]
    return False


def _seen_port(sentinel: Redis) -> int:
    """The port of the master that it would lead clients to; 0 for none."""
    seen = sentinel.execute("SENTINEL MASTERS")[NAME]
    return 0 if seen["is_sdown"] or seen["is_odown"] else int(seen["port"])

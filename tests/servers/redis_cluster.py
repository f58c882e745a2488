"""A Redis Cluster of our own."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.servers.ports import HOST, free_port
from tests.servers.redis import Redis
from tests.servers.run import Run
from tests.servers.waiting import wait_until

_BUS = 10_000  # how far above its own port a node's port for other nodes is
_SLOTS = ("0-5460", "5461-10922", "10923-16383")


class RedisCluster:
    """Three masters that share all slots, without replicas.

    Every method blocks until it is done, and may be called in a thread.
    """

    def __init__(self, run: Run, program: Path) -> None:
        self.nodes = [Redis(run, program, "cluster", port=free_port(_BUS)) for _ in _SLOTS]
        names = [secrets.token_hex(20) for _ in self.nodes]
        for node, name in zip(self.nodes, names, strict=True):
            node.set(save='""', cluster_enabled="yes", cluster_node_timeout="2000")
            # What they would have found out and written down themselves, had they been told to meet.
            node.write(
                "nodes.conf", *(self._line(at, names[at], names[at] == name) for at in range(len(names)))
            )
        self.make_ready()

    @property
    def url(self) -> str:
        return f"redis+cluster://{self.nodes[0].address}"

    def make_ready(self) -> None:
        """Starts and thaws nodes, and waits until all take writes, which a new one does after two seconds."""
        for node in self.nodes:
            if node.is_running:
                node.thaw()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Redis.start, [node for node in self.nodes if not node.is_running]))
        wait_until(lambda: all(_is_ready(node) for node in self.nodes), "all nodes of the cluster are ready")

    def flush(self) -> None:
        for node in self.nodes:
            node.execute("FLUSHALL")

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    def _line(self, at: int, name: str, is_own: bool) -> str:
        port = self.nodes[at].port
        flags = "myself,master" if is_own else "master"
        return f"{name} {HOST}:{port}@{port + _BUS} {flags} - 0 0 {at + 1} connected {_SLOTS[at]}"


def _is_ready(node: Redis) -> bool:
    return b"cluster_state:ok" in node.execute("CLUSTER", "INFO")

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
        self._moved: set[int] = set()
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

    def empty(self) -> None:
        """Deletes all keys, and gives each node the slots back that it had at first."""
        for node in self.nodes:
            node.execute("FLUSHALL")
        for slot in self._moved:
            home, owner = self._home(slot), self.owner(slot)
            if owner is not home:
                self.begin_move(owner, home, slot)
            self.end_move(home, slot)
        self._moved.clear()

    def owner(self, slot: int) -> Redis:
        """The node that says of itself that it has the slot."""
        return next(node for node in self.nodes if _has(node, slot))

    def begin_move(self, source: Redis, target: Redis, slot: int) -> None:
        """Lets keys of a slot be in either of two nodes, until the move is ended."""
        self._moved.add(slot)
        target.execute("CLUSTER", "SETSLOT", slot, "IMPORTING", _name(source))
        source.execute("CLUSTER", "SETSLOT", slot, "MIGRATING", _name(target))

    def move_keys(self, source: Redis, target: Redis, slot: int, count: int) -> None:
        keys = source.execute("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            source.execute("MIGRATE", HOST, target.port, "", 0, 5_000, "KEYS", *keys)

    def end_move(self, target: Redis, slot: int) -> None:
        """Tells all nodes whose the slot is now, the new owner first."""
        for node in [target, *(node for node in self.nodes if node is not target)]:
            node.execute("CLUSTER", "SETSLOT", slot, "NODE", _name(target))

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    def _home(self, slot: int) -> Redis:
        return next(
            node for node, part in zip(self.nodes, _SLOTS, strict=True) if slot <= int(part.split("-")[1])
        )

    def _line(self, at: int, name: str, is_own: bool) -> str:
        port = self.nodes[at].port
        flags = "myself,master" if is_own else "master"
        return f"{name} {HOST}:{port}@{port + _BUS} {flags} - 0 0 {at + 1} connected {_SLOTS[at]}"


def _is_ready(node: Redis) -> bool:
    return b"cluster_state:ok" in node.execute("CLUSTER", "INFO")


def _name(node: Redis) -> str:
    name: bytes = node.execute("CLUSTER", "MYID")
    return name.decode()


def _has(node: Redis, slot: int) -> bool:
    name = _name(node).encode()
    parts = node.execute("CLUSTER", "SLOTS")
    return any(first <= slot <= last and owner[2] == name for first, last, owner, *_ in parts)

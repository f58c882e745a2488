"""Partitioned stores for tests."""

from collections.abc import Mapping

from holdfast.model.partition import Layout, layout
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.partitioned import PartitionedStore
from holdfast.testing import ManualClock

NAMES = ("a", "b", "c")


def memory_layout(
    *names: str, draining: tuple[str, ...] = (), home: str | None = None, **queues: str
) -> Layout:
    """Partitions in memory, and which queues are mapped to them."""
    stores = {name: f"memory://{name}" for name in names or NAMES}
    return layout(stores, home=home, draining=draining, queues=tuple(queues.items()))


def in_memory(clock: ManualClock, found: Layout | None = None) -> PartitionedStore:
    found = found or memory_layout()
    return PartitionedStore(found, {each.name: MemoryStore(clock=clock) for each in found.partitions})


def made_of(stores: Mapping[str, Store], urls: Mapping[str, str] | None = None, **queues: str) -> PartitionedStore:
    """Partitions of stores that are there already."""
    urls = urls or {name: f"memory://{name}" for name in stores}
    return PartitionedStore(layout(urls, queues=tuple(queues.items())), stores)

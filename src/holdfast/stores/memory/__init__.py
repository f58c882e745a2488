"""The memory store: the reference for what every store does. Fast, and lost with the process.

Read `shelf` first (one namespace's data and indexes), then `moves` and `jobs`, the operations.
"""

from holdfast.stores.memory.store import Clock, MemoryStore

__all__ = ["Clock", "MemoryStore"]

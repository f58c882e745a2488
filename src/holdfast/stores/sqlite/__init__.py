"""The SQLite store: one file, any number of processes of one machine, durable by default.

Read `store` first, then `database` (the threads that a process has for a file), `writer` (group commit), and
`claiming` with `moving`, the two halves of a tick. The schema is in `migrations/`, the statements in `sql/`.
"""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

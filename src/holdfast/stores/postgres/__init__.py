"""The PostgreSQL store: one schema of a database, any number of processes and machines.

Read `store` first, then `jobs` (what is sent) and `migrations/`, where the store's work is done: every
operation is one call of a server-side function, whose version is part of its name. `database` has the
connections, `bell` and `listener` the wake-ups, `transactions` what happens inside a transaction of somebody
else.
"""

from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

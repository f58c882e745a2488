"""The Redis store: one server, a Sentinel group or a Cluster, of Redis 6.2 and later or Valkey.

Read `store` first, then `jobs` (what is sent) and `scripts/`, where the store's work is done: every operation
is one script, which reads and checks before it writes. `records` has the form in which a job is stored,
`database` the connections, `listener` the wake-ups, `events` the log of what happened.
"""

from holdfast.stores.redis.store import RedisStore

__all__ = ["RedisStore"]

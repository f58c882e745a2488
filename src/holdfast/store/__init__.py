"""The seam: what a store must do, and every promise that it keeps.

A store keeps data and gives atomic operations. It never decides: retries, delays and states are computed by
the engine and arrive as data. It never reads a worker's clock: durations come in, and the store adds its own
clock in the statement that acts.

Promises that hold for every operation below:

- Atomic: an operation happens whole or not at all; a batch is one transaction unless said otherwise.
- Three outcomes: it returns (done), raises StoreUnavailable (not done), or raises OutcomeUnknown (perhaps
  done).
- Repeatable: every mutating operation may be sent again unchanged: nothing more happens, and the answer tells
  what the first one did. (A tick then says `repeat`, a job no longer `fresh`.) An `edit` is guarded by its
  version instead, and gives None the second time.
- Scoped: a session belongs to one namespace and neither sees nor changes anything of another.
- Bound values: names and payloads are values, never identifiers, and come back exactly as they went in.
- Safe when cancelled: if a caller is cancelled while waiting, the operation is done whole or not at all.
"""

from holdfast.store.events import EventStore
from holdfast.store.fleet import FleetStore
from holdfast.store.flow import FlowStore
from holdfast.store.jobs import JobStore
from holdfast.store.locks import LockStore
from holdfast.store.partitions import Partitioned, PartitionedSession
from holdfast.store.schedules import ScheduleStore
from holdfast.store.schema import Migrations, Roles
from holdfast.store.session import Session, Store
from holdfast.store.transactions import Transactions
from holdfast.store.wakeups import Handovers, Wakeups

__all__ = [
    "EventStore",
    "FleetStore",
    "FlowStore",
    "Handovers",
    "JobStore",
    "LockStore",
    "Migrations",
    "Partitioned",
    "PartitionedSession",
    "Roles",
    "ScheduleStore",
    "Session",
    "Store",
    "Transactions",
    "Wakeups",
]

"""Makes any store resilient: transient faults are tried again, and a long outage is told at once.

Read `guard` first (one call, from the first try to the last), then `breaker`. `jobs` and `fleet` say of each
operation what may be sent again.
"""

from holdfast.stores.resilient.breaker import Breaker
from holdfast.stores.resilient.store import ResilientStore

__all__ = ["Breaker", "ResilientStore"]

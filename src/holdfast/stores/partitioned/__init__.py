"""Several stores as one.

`store.py` has the factory and `session.py` the session; `branch.py` is the way to one partition, and the
other files say for each part of the seam which partitions an operation goes to.
"""

from holdfast.stores.partitioned.store import PartitionedStore

__all__ = ["PartitionedStore"]

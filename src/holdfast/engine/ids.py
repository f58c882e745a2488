"""Job ids: UUIDs of version 7, as canonical text, each greater than the one before it in this process."""

from __future__ import annotations

from holdfast.engine import surroundings
from holdfast.model.partition import stamp, stamped


def new_id() -> str:
    return surroundings.draw_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """As many ids, in order; cheaper than one by one."""
    return surroundings.draw_ids(count)


def new_id_beside(job_id: str) -> str:
    """An id for a job that is stored where another one is: it tells the same partition, if that tells one."""
    return stamped(surroundings.draw_ids(1)[0], stamp(job_id))

"""Jobs that are handed over, as `scripts/handing.lua` tells them."""

from struct import Struct

from holdfast.model.records import Handed, JobRecord
from holdfast.stores.redis.records import made

_NAME = Struct(">H")
_WANT = Struct(">qq")
_SIZE = Struct(">I")


def handed(told: bytes) -> Handed:
    (length,) = _NAME.unpack_from(told)
    at = _NAME.size + length
    seq, after = _WANT.unpack_from(told, at)
    return Handed(worker=told[_NAME.size : at].decode(), seq=seq, after=after, claimed=_jobs(told, at + 16))


def _jobs(told: bytes, at: int) -> list[JobRecord]:
    """Those that are told from this place on, in the order in which they would have been claimed."""
    parts: list[bytes] = []
    while at < len(told):
        (size,) = _SIZE.unpack_from(told, at)
        at += _SIZE.size + size
        parts.append(told[at - size : at])
    jobs = list(map(made, parts[::2], parts[1::2]))
    jobs.sort(key=lambda job: (job.priority, job.due, job.id))
    return jobs

"""Jobs that are handed over, as `add_lone_v1` tells them."""

from typing import Any

import msgspec

from holdfast.model.lifecycle import State
from holdfast.model.records import Handed, JobRecord
from holdfast.stores.postgres.rows import Told, from_hex

_decode = msgspec.json.Decoder(list[Any]).decode


def handed(told: str) -> Handed:
    """What a message says: whose want, how long it stood, and the job, unless that is too large."""
    worker, seq, after, *job = _decode(told)
    return Handed(worker=worker, seq=seq, after=after, claimed=[_job(worker, job)] if job else [])


def _job(worker: str, told: list[Any]) -> JobRecord:
    if len(told) == 1:
        return msgspec.convert(told[0], Told).record()
    now, lease, job_id, task, queue, payload, priority = told
    return JobRecord(
        id=job_id,
        task=task,
        queue=queue,
        payload=from_hex(payload) or b"",
        state=State.CLAIMED,
        priority=priority,
        due=now,
        created=now,
        run=1,
        failures=0,
        lost=0,
        suspect=False,
        version=2,
        token=now,
        worker=worker,
        lease_until=now + lease,
    )

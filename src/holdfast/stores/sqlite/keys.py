"""Who holds an idempotency key."""

from holdfast.model.lifecycle import FINISHED
from holdfast.model.records import JobRecord
from holdfast.stores.sqlite.transaction import Transaction


def key_holder(tx: Transaction, key: str) -> JobRecord | None:
    """The job that holds the key, if any does now."""
    row = tx.run("key_holder", key=key).fetchone()
    if row is None:
        return None
    job_id, until = row[0].decode(), row[1]
    holder = tx.by_id([job_id]).get(job_id)
    if holder is None or (holder.state in FINISHED and until <= tx.now):
        return None
    return holder


def take_key(tx: Transaction, key: str, job_id: str, until: int) -> None:
    tx.run("key_take", key=key, job=job_id, until=until)


def release_key(tx: Transaction, record: JobRecord) -> None:
    """Frees the job's key, unless another has taken it since."""
    if record.key is not None:
        tx.run("key_release", key=record.key, job=record.id)

"""What `extend` does."""

from collections.abc import Sequence

from holdfast.model.records import Extension, Held
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import Run, feed
from holdfast.stores.sqlite.transaction import Transaction

_ANSWERS = {None: Held.LOST, 0: Held.HELD, 1: Held.CANCEL_ASKED}
_decode = reader(list[int | None])


def extend(tx: Transaction, worker: str, extensions: Sequence[Extension]) -> list[Held]:
    """Prolongs leases; an answer for each wish."""
    if len({extension.job for extension in extensions}) < len(extensions):
        return [held for extension in extensions for held in extend(tx, worker, [extension])]
    if not extensions:
        return []
    run = Run()
    rows = [_packed(extension, run) for extension in extensions]
    parameters = {**feed(rows, run), "worker": worker}
    tx.run("extend", **parameters)
    return [_ANSWERS[answer] for answer in _decode(tx.row("held", **parameters)[0])]


def _packed(extension: Extension, run: Run) -> tuple[object, ...]:
    progress = extension.progress
    told = progress is not None or extension.progress_note is not None
    return (
        extension.job,
        extension.token,
        extension.lease,
        extension.elapsed,
        int(told),
        None if progress is None else repr(progress),
        *run.put(extension.progress_note),
    )

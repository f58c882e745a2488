"""Guards of the store that can be left out, to see whether the oracle would notice."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from holdfast.model.records import Extension, Held, JobRecord, LockHold, Move, Verdict
from holdfast.stores.memory import claims, jobs, moves
from holdfast.stores.memory.claims import Claim
from holdfast.stores.memory.jobs import MemoryJobs
from holdfast.stores.memory.locks import LockShelf
from holdfast.stores.memory.schedules import MemorySchedules
from holdfast.stores.memory.shelf import Shelf

_apply = moves.apply_move
_write = MemorySchedules.write
# What is weakened is inside.
_extend: Any = vars(MemoryJobs)["_extend"]
_lease: Any = vars(Claim)["_lease"]


def _any_token(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
    """Whoever holds the job by name may write, with whatever token."""
    record = shelf.jobs.get(move.job)
    if record is not None and record.lease_until is not None:
        move = replace(move, token=record.token)
    return _apply(shelf, worker, move, now)


def _any_owner(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
    """A leased job takes a write from anybody."""
    record = shelf.jobs.get(move.job)
    if record is not None and record.worker is not None and not move.if_expired:
        return _apply(shelf, record.worker, replace(move, token=record.token), now)
    return _apply(shelf, worker, move, now)


def _any_time(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
    """A lease is taken back whether it has ended or not, since the janitor has looked before."""
    record = shelf.jobs.get(move.job)
    if move.if_expired and record is not None and record.worker is not None:
        return _apply(shelf, record.worker, replace(move, if_expired=False, token=record.token), now)
    return _apply(shelf, worker, move, now)


def _revive(self: Any, worker: str, extension: Extension, now: int) -> Held:
    """A lease that has ended is prolonged, as long as nobody has taken the job."""
    record = self._shelf.jobs.get(extension.job)
    if record is not None and record.lease_until is not None and record.token == extension.token:
        record.lease_until = max(record.lease_until, now + 1)
    held: Held = _extend(self, worker, extension, now)
    return held


def _same_token(self: Claim, record: JobRecord) -> None:
    """A claim does not raise the token of a job that had one."""
    before = record.token
    _lease(self, record)
    record.token = before or record.token


def _renew_for_ever(self: Any, hold: LockHold, now: int) -> bool:
    """A lock that has ended is renewed, as long as nobody has taken it."""
    state = self._locks.get(hold.name)
    if state is None or (state.owner, state.token) != (hold.owner, hold.token):
        return False
    state.until = now + hold.ttl
    return True


async def _write_without_term(self: MemorySchedules, writes: Any, _: object = None) -> Any:
    """Whoever believes to lead writes."""
    return await _write(self, writes, None)


def _forget_moves(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
    """A success is accepted, and not recorded, once in a while."""
    if move.outcome is not None and move.path[-1] == "success" and now % 7 == 0:
        return Verdict.ACCEPTED
    return _apply(shelf, worker, move, now)


_PATCHES: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "any-token": (jobs, "apply_move", _any_token),
    "any-owner": (jobs, "apply_move", _any_owner),
    "reclaim-any-time": (jobs, "apply_move", _any_time),
    "revive-lease": (MemoryJobs, "_extend", _revive),
    "same-token": (claims.Claim, "_lease", _same_token),
    "revive-lock": (LockShelf, "renew", _renew_for_ever),
    "write-without-term": (MemorySchedules, "write", _write_without_term),
    "forget-success": (jobs, "apply_move", _forget_moves),
}

NAMES = tuple(_PATCHES)


@contextmanager
def weakened(name: str) -> Generator[None]:
    """The memory store without one of its guards."""
    where, what, instead = _PATCHES[name]
    with patch.object(where, what, instead):
        yield

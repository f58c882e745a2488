"""Locks: their tokens, and a resource that trusts nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.checker.case import Asked, Case
from holdfast.torture.checker.violation import Violation
from holdfast.torture.history import Fenced, Granted


def locks_are_linearizable(case: Case) -> Iterator[Violation]:
    """I9: grants of a lock can be put in one order that agrees with real time and with their tokens.

    A lock's grants are a counter of which everybody draws: unique numbers, and one that was drawn before
    another draw began is the smaller. A history with both properties is linearizable, by the order of the
    numbers themselves, so no search is needed. What a holder keeps undisturbed from its grant to its release
    must not overlap with another's grant, and the resource must see tokens in that order too.
    """
    calls = {(asked.call.who, asked.call.op): asked for asked in case.asked("lock")}
    for lock, grants in case.granted.items():
        yield from _drawn_twice(lock, grants)
        yield from _drawn_out_of_order(lock, grants, calls)
        yield from _granted_while_held(case, lock, grants)
    for lock, writes in case.fenced.items():
        yield from _written_out_of_order(lock, writes)
        yield from _refused_without_reason(lock, writes)


def _drawn_twice(lock: str, grants: list[Granted]) -> Iterator[Violation]:
    seen: dict[int, Granted] = {}
    for grant in grants:
        if (before := seen.setdefault(grant.token, grant)) is not grant:
            yield Violation(f"token {grant.token} of lock {lock} was granted twice", (before, grant))


def _drawn_out_of_order(
    lock: str, grants: list[Granted], calls: dict[tuple[str, int], Asked]
) -> Iterator[Violation]:
    """Goes through the beginnings and ends of draws by time, and remembers the greatest that had ended."""
    moments: list[tuple[int, int, Granted]] = []
    for grant in grants:
        asked = calls.get((grant.who, grant.op))
        moments.append((grant.at, 1, grant))
        if asked is not None:
            moments.append((asked.call.at, 0, grant))
    greatest: Granted | None = None
    for _, ended, grant in sorted(moments, key=lambda moment: moment[:2]):
        if ended:
            greatest = grant if greatest is None or grant.token > greatest.token else greatest
        elif greatest is not None and grant.token < greatest.token:
            asked = calls[grant.who, grant.op]
            said = (
                f"lock {lock} was granted under token {grant.token} to a call that began after"
                f" token {greatest.token} had been granted"
            )
            yield Violation(said, (greatest, asked.call, grant))


def _granted_while_held(case: Case, lock: str, grants: list[Granted]) -> Iterator[Violation]:
    """A holder that released what it still held held it at least until its last use.

    A grant with a smaller token is an older one that was told late.
    """
    used: dict[int, int] = {}
    for write in case.fenced.get(lock, ()):
        used[write.token] = max(used.get(write.token, 0), write.at)
    held: tuple[int, Granted] | None = None
    for grant in grants:
        if held is not None and grant.at < held[0] and grant.token > held[1].token:
            freed = case.freed[lock, held[1].token]
            said = f"lock {lock} was granted under token {grant.token} while token {held[1].token} held it"
            yield Violation(said, (held[1], grant, freed))
        freed_here = case.freed.get((lock, grant.token))
        if freed_here is not None and freed_here.held and (lock, grant.token) not in case.lost:
            until = min(used.get(grant.token, grant.at), freed_here.at)
            if held is None or until > held[0]:
                held = (until, grant)


def _written_out_of_order(lock: str, writes: list[Fenced]) -> Iterator[Violation]:
    greatest: Fenced | None = None
    for write in sorted(writes, key=_order):
        if not write.accepted:
            continue
        if greatest is not None and write.token < greatest.token:
            said = f"the resource of lock {lock} took token {write.token} after token {greatest.token}"
            yield Violation(said, (greatest, write))
        if greatest is None or write.token > greatest.token:
            greatest = write


def _refused_without_reason(lock: str, writes: list[Fenced]) -> Iterator[Violation]:
    greatest = -1
    for write in sorted(writes, key=_order):
        if write.accepted:
            greatest = max(greatest, write.token)
        elif write.token >= greatest:
            said = f"the resource of lock {lock} refused token {write.token}, and had seen none greater"
            yield Violation(said, (write,))


def _order(write: Fenced) -> int:
    return write.order

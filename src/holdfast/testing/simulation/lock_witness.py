"""Watches what the store says about locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.model.records import LockAnswer, LockHold, LockWish
from holdfast.model.scheduling import Term


@dataclass(slots=True)
class Holding:
    """Who holds a lock, or held it last."""

    owner: str = ""
    token: int = 0
    until: int = 0


class LockWitness:
    """Objects if a lock has two holders, a token does not grow, or a lease that has ended is prolonged."""

    def __init__(self, object_to: Callable[[str], None]) -> None:
        self._object_to = object_to
        self._holdings: dict[str, Holding] = {}
        self._last = 0
        self.grants = 0

    def acquire(self, wish: LockWish, answer: LockAnswer, now: int) -> None:
        if answer.token is None:
            return
        held = self._holdings.setdefault(wish.name, Holding())
        if held.owner == wish.owner and now < held.until:
            if answer.token != held.token:
                self._object(wish.name, held, f"its holder is told token {answer.token}")
            held.until = max(held.until, now + wish.ttl)
            return
        if now < held.until:
            self._object(wish.name, held, f"it was granted to {wish.owner} as well")
        if answer.token <= self._last:
            self._object(wish.name, held, f"token {answer.token} was granted after {self._last}")
        self.grants += 1
        self._last = max(self._last, answer.token)
        held.owner, held.token, held.until = wish.owner, answer.token, now + wish.ttl

    def renew(self, holds: Sequence[LockHold], answers: Sequence[bool], now: int) -> None:
        for hold, is_renewed in zip(holds, answers, strict=True):
            is_held = self.is_held(hold.name, hold.owner, hold.token, now)
            held = self._holdings.setdefault(hold.name, Holding())
            if is_renewed != is_held:
                self._object(
                    hold.name, held, f"{hold.owner} with {hold.token} got {is_renewed} for a renewal"
                )
            if is_renewed:
                held.until = max(held.until, now + hold.ttl)

    def release(self, name: str, owner: str, token: int | None) -> None:
        held = self._holdings.get(name)
        if held is not None and held.owner == owner and token in {None, held.token}:
            held.until = 0

    def is_held(self, name: str, owner: str, token: int, now: int) -> bool:
        held = self._holdings.get(name)
        return held is not None and (held.owner, held.token) == (owner, token) and now < held.until

    def check_term(self, term: Term, now: int) -> None:
        """Something was written under the term."""
        if not self.is_held(term.lock, term.owner, term.token, now):
            held = self._holdings.setdefault(term.lock, Holding())
            self._object(term.lock, held, f"{term.owner} with token {term.token} wrote under it")

    def _object(self, name: str, held: Holding, what: str) -> None:
        self._object_to(
            f"lock {name}, held by {held.owner} with token {held.token} until {held.until}: {what}"
        )

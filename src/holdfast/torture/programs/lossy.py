"""Answers that are lost inside of the process: for SQLite, where there is no wire to lose them on.

A call is carried out, and then either the caller hears that its outcome is unknown, or the process dies.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast.model.errors import OutcomeUnknown
from holdfast.stores.sqlite import SqliteStore
from holdfast.torture.history import Fault
from holdfast.torture.programs.witness import CALM, out, recorder, seed, who

WRITES: Final = {
    "jobs": ("add", "tick", "extend", "edit", "delete"),
    "locks": ("acquire", "renew", "release"),
    "schedules": ("write",),
    "events": ("append",),
}
_DEATHS: Final = 0.03
"""The share of lost answers with which the process dies."""

Method = Callable[..., Awaitable[Any]]


def install(share: float) -> None:
    """Has every session that this process opens lose this share of the answers to its writes."""
    draw = random.Random(f"{seed()} {who()}")
    store: Any = SqliteStore
    connect: Method = store.connect

    async def lossy(self: SqliteStore, namespace: str) -> Any:
        session = await connect(self, namespace)
        for part, methods in WRITES.items():
            for name in methods:
                target = getattr(session, part)
                setattr(target, name, _losing(getattr(target, name), f"{part}.{name}", share, draw))
        return session

    store.connect = lossy


def _losing(method: Method, name: str, share: float, draw: random.Random) -> Method:
    async def call(*args: Any, **options: Any) -> Any:
        answer = await method(*args, **options)
        if draw.random() >= share or _is_idle(name, args, answer) or (out() / CALM).exists():
            return answer
        dies = draw.random() < _DEATHS
        facts: dict[str, bool | int | float | str | None] = {"call": name, "dies": dies}
        recorder().write(Fault(name="lost reply", target=who(), phase="once", count=1, facts=facts))
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OutcomeUnknown("the answer was lost")

    return call


def _is_idle(name: str, args: tuple[Any, ...], answer: Any) -> bool:
    """Whether the call wrote nothing."""
    if name == "jobs.tick":
        return not args[0].moves and not answer.claimed
    return name == "jobs.extend" and not args[1]

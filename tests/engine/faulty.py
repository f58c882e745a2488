"""A store that fails on command: before or after it did what it was asked, once, for a while, for good."""

import asyncio
import copy
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.records import Tick
from holdfast.store import Migrations, Session, Store, Transactions

MUTATING = frozenset(
    {"add", "tick", "extend", "edit", "delete", "prune", "append", "register", "beat", "retire"}
)

Call = Callable[[], Awaitable[Any]]


@dataclass
class Plan:
    """What to do to some calls: of one method, on one session ("pump" or "heartbeat") or on all."""

    call: str
    session: str | None = None
    before: BaseException | None = None
    after: BaseException | None = None
    hangs: bool = False
    entry: asyncio.Event | None = None
    """Begins only once it is set; it must belong to the loop of the session."""
    gate: asyncio.Event | None = None
    """Answers only once it is set; it must belong to the loop of the session."""
    when: Callable[[Any], bool] = field(default=lambda argument: True)
    """Whether the call's first argument is one that is meant."""
    times: float = 1
    reached: threading.Event = field(default_factory=threading.Event)


class Faults:
    """The plans, and a log of the calls. `down` fails every call; `die` lets none come back any more.

    `ticks` are those of the worker itself, each as it was sent.
    """

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.calls: list[tuple[str, str]] = []
        self.ticks: list[Tick] = []
        self.down: Exception | None = None
        self.is_dead = False
        self.died = asyncio.Event()
        self._die_at: tuple[int, bool] | None = None
        self._mutations = 0

    def plan(self, call: str, **what: Any) -> Plan:
        plan = Plan(call, **what)
        self.plans.append(plan)
        return plan

    def count(self, call: str) -> int:
        return sum(name == call for _, name in self.calls)

    def die_at(self, mutation: int, *, after: bool) -> None:
        """The process "dies" at that mutating call, before it is made or after it is done, unanswered.

        `died` is set; the call must be one of the test's own loop.
        """
        self._die_at = (mutation, after)

    @property
    def mutations(self) -> int:
        return self._mutations

    async def apply(self, session: str, name: str, call: Call, argument: Any) -> Any:
        if self.is_dead:
            await _for_ever()
        self.calls.append((session, name))
        if (session, name) == ("pump", "tick"):
            self.ticks.append(copy.copy(argument))
        if self.down is not None:
            raise self.down
        if name in MUTATING:
            self._mutations += 1
            if self._die_at is not None and self._die_at[0] == self._mutations:
                if self._die_at[1]:
                    await call()
                self.is_dead = True
                self.died.set()
                await _for_ever()
        plan = self._find(session, name, argument)
        return await (call() if plan is None else _follow(plan, call))

    def _find(self, session: str, name: str, argument: Any) -> Plan | None:
        for plan in self.plans:
            if plan.call == name and plan.session in {None, session} and plan.times and plan.when(argument):
                plan.times -= 1
                return plan
        return None


async def _follow(plan: Plan, call: Call) -> Any:
    plan.reached.set()
    if plan.entry is not None:
        await plan.entry.wait()
    if plan.before is not None:
        raise plan.before
    if plan.hangs:
        await _for_ever()
    answer = await call()
    if plan.gate is not None:
        await plan.gate.wait()
    if plan.after is not None:
        raise plan.after
    return answer


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


class FaultyPart:
    """A part of a session, such as its jobs or its fleet, with every call under the faults."""

    def __init__(self, part: Any, faults: Faults, session: str) -> None:
        self._part = part
        self._faults = faults
        self._session = session

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)

        def call(*args: Any, **which: Any) -> Awaitable[Any]:
            argument = args[0] if args else None
            return self._faults.apply(self._session, name, lambda: method(*args, **which), argument)

        return call


class FaultyLocks(FaultyPart):
    """Its wake-ups are the store's own: they are plain calls."""

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        stop: Callable[[], None] = self._part.listen(owner, wake)
        return stop


class FaultySession:
    def __init__(self, session: Session, faults: Faults, name: str) -> None:
        self._session = session
        self.jobs: Any = FaultyPart(session.jobs, faults, name)
        self.fleet: Any = FaultyPart(session.fleet, faults, name)
        self.locks: Any = FaultyLocks(session.locks, faults, name)
        self.schedules: Any = FaultyPart(session.schedules, faults, name)
        self.events: Any = FaultyPart(session.events, faults, name)
        self.flow: Any = FaultyPart(session.flow, faults, name)
        self.wakeups = session.wakeups

    async def close(self) -> None:
        await self._session.close()


class FaultyStore:
    migrations: Migrations | None = None
    transactions: Transactions | None = None

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    async def connect(self, namespace: str) -> FaultySession:
        name = "heartbeat" if threading.current_thread().name == "holdfast-heartbeat" else "pump"

        def connect() -> Awaitable[Session]:
            return self._store.connect(namespace)

        return FaultySession(
            await self._faults.apply(name, "connect", connect, namespace), self._faults, name
        )

    async def facts(self) -> dict[str, str]:
        return await self._store.facts()

    async def close(self) -> None:
        await self._store.close()

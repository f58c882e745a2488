"""The way from a simulated process to the store: calls come late, out of order, twice, or not at all."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.store import Migrations, Session, Store, Transactions
from holdfast.testing.simulation.process import SimulatedProcess
from holdfast.testing.simulation.universe import Universe
from holdfast.testing.simulation.weather import Weather

Observe = Callable[[SimulatedProcess, str, tuple[Any, ...], Any], None]
Method = Callable[..., Coroutine[Any, Any, Any]]
Settle = Callable[[asyncio.Future[Any], Any], None]

LONGEST_WAKEUP = 0.5


class Wire:
    """Carries calls to the store. `observe` is told of each one that was carried out."""

    def __init__(self, universe: Universe, weather: Weather, observe: Observe) -> None:
        self.universe = universe
        self.weather = weather
        self._observe = observe

    async def call(self, name: str, method: Method, args: tuple[Any, ...], which: dict[str, Any]) -> Any:
        universe, weather = self.universe, self.weather
        process = universe.current
        if process.is_dead:
            await _for_ever()
        if name == "jobs.tick":
            args = (copy.copy(args[0]),)  # The caller goes on to write to it.
        carry_out = partial(self._carry_out, process, name, method, args, which)
        if process.calls_left is not None:
            await self._count_down(process, carry_out)
        if process.pauses_at is not None:
            count, length = process.pauses_at
            process.pauses_at = (count - 1, length) if count > 1 else None
            if count <= 1:
                return await self._freeze(process, carry_out, length)
        if weather.away and weather.is_away(process, universe.now):
            return await self._lost_on_the_way()
        drawn = universe.chance.random()
        if drawn >= weather.is_answered_later or process.is_spared:
            return carry_out()
        return await self._later(carry_out, drawn / weather.is_answered_later)

    def _carry_out(
        self,
        process: SimulatedProcess,
        name: str,
        method: Method,
        args: tuple[Any, ...],
        which: dict[str, Any],
    ) -> Any:
        """The store does as it was asked."""
        answer = answered(method(*args, **which))
        self._observe(process, name, args, answer)
        return answer

    async def _count_down(self, process: SimulatedProcess, carry_out: Callable[[], Any]) -> None:
        """Ends the process at the call at which it is to die, which may still arrive."""
        assert process.calls_left is not None
        process.calls_left -= 1
        if process.calls_left > 0:
            return
        process.kill()
        if self.universe.chance.random() < 0.5:
            answer = asyncio.get_running_loop().create_future()
            self.universe.after(
                self.weather.latency, lambda: self._arrive(carry_out, answer, 0.0, False, True)
            )
        await _for_ever()

    async def _freeze(self, process: SimulatedProcess, carry_out: Callable[[], Any], length: float) -> Any:
        """Has the process stand still when it has decided to call, and the call come after that."""
        process.pause(length)
        answer = asyncio.get_running_loop().create_future()
        self.universe.after(length, lambda: self._arrive(carry_out, answer, 0.0, False, False))
        return await answer

    async def _lost_on_the_way(self) -> Any:
        chance = self.universe.chance
        is_silent = chance.random() < 0.5
        await asyncio.sleep(chance.random() * (self.weather.silence if is_silent else self.weather.latency))
        raise StoreUnavailable("the store cannot be reached (simulated)")

    async def _later(self, carry_out: Callable[[], Any], drawn: float) -> Any:
        """Answers after a while, if at all."""
        weather, chance = self.weather, self.universe.chance
        if drawn < weather.is_unsent:
            await asyncio.sleep(chance.random() * weather.latency)
            raise StoreUnavailable("the call was not sent (simulated)")
        drawn -= weather.is_unsent
        is_unanswered = drawn < weather.is_unanswered
        drawn -= weather.is_unanswered
        is_silent = not is_unanswered and 0 <= drawn < weather.is_silent
        drawn -= weather.is_silent
        most = weather.slowness if 0 <= drawn < weather.is_slow else weather.latency
        if is_unanswered and chance.random() < 0.5:
            await asyncio.sleep(chance.random() * most)
            raise OutcomeUnknown("the call was lost, and nobody knows (simulated)")
        if is_silent and chance.random() < 0.5:
            await asyncio.sleep(weather.silence)
            raise OutcomeUnknown("the call was lost, and the connection broke at last (simulated)")
        answer = asyncio.get_running_loop().create_future()
        self.universe.after(
            chance.random() * most,
            lambda: self._arrive(carry_out, answer, chance.random() * most, is_unanswered, is_silent),
        )
        return await answer

    def _arrive(
        self,
        carry_out: Callable[[], Any],
        answer: asyncio.Future[Any],
        back: float,
        is_unanswered: bool,
        is_silent: bool,
    ) -> None:
        """The store does as it was asked, whether anybody still waits or not."""
        try:
            found = carry_out()
        except Exception as error:  # noqa: BLE001  what the store says to the caller
            _after(back, answer, _fail, error)
            return
        if is_unanswered or is_silent:
            lost = OutcomeUnknown("the answer was lost (simulated)")
            _after(self.weather.silence if is_silent else back, answer, _fail, lost)
        else:
            _after(back, answer, _settle, found)

    def hint(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Wakes the process that calls this, after a while, if the hint is not lost."""
        loop = asyncio.get_running_loop()
        process, universe = self.universe.current, self.universe
        is_under_way = False

        def deliver() -> None:
            nonlocal is_under_way
            is_under_way = False
            if not process.is_dead and not loop.is_closed():
                loop.call_soon(wake)

        def hint() -> None:
            nonlocal is_under_way
            if is_under_way or process.is_dead or universe.chance.random() < self.weather.wakeup_is_lost:
                return
            is_under_way = True
            universe.after(universe.chance.random() * LONGEST_WAKEUP, deliver)

        return hint


class Part:
    """A part of a session, such as its jobs: every call goes by the wire."""

    def __init__(self, name: str, part: Any, wire: Wire) -> None:
        self._name = name
        self._part = part
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        method, wire, whole_name = getattr(self._part, name), self._wire, f"{self._name}.{name}"

        def call(*args: Any, **which: Any) -> Coroutine[Any, Any, Any]:
            return wire.call(whole_name, method, args, which)

        setattr(self, name, call)
        return call


class Locks(Part):
    """Locks, whose waiters are woken by the wire."""

    def listen(self, owner: str, wake: Callable[[], None]) -> Callable[[], None]:
        stop: Callable[[], None] = self._part.listen(owner, self._wire.hint(wake))
        return stop


class SimulatedWakeups:
    """Wake-ups that come late or are lost."""

    def __init__(self, wakeups: Any, wire: Wire) -> None:
        self._wakeups = wakeups
        self._wire = wire

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        stop: Callable[[], None] = self._wakeups.listen(self._wire.hint(wake))
        return stop


class SimulatedSession:
    """A session of a simulated process."""

    def __init__(self, session: Session, wire: Wire) -> None:
        self.jobs: Any = Part("jobs", session.jobs, wire)
        self.fleet: Any = Part("fleet", session.fleet, wire)
        self.locks: Any = Locks("locks", session.locks, wire)
        self.schedules: Any = Part("schedules", session.schedules, wire)
        self.events: Any = Part("events", session.events, wire)
        self.flow: Any = Part("flow", session.flow, wire)
        self.wakeups = SimulatedWakeups(session.wakeups, wire)

    async def close(self) -> None:
        """Nothing is kept open."""


class SimulatedStore:
    """A store whose sessions go by the wire."""

    migrations: Migrations | None = None
    transactions: Transactions | None = None

    def __init__(self, store: Store, wire: Wire) -> None:
        self._store = store
        self._wire = wire

    async def connect(self, namespace: str) -> SimulatedSession:
        session = await self._wire.call("connect", self._store.connect, (namespace,), {})
        return SimulatedSession(session, self._wire)

    async def facts(self) -> dict[str, str]:
        return await self._store.facts()

    async def close(self) -> None:
        """The store goes on without this process."""


def answered(call: Coroutine[Any, Any, Any]) -> Any:
    """The answer of a store that never waits."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value
    call.close()
    raise RuntimeError("the simulated store had to wait")


def _after(seconds: float, answer: asyncio.Future[Any], settle: Settle, what: Any) -> None:
    loop = answer.get_loop()
    if not loop.is_closed():
        loop.call_later(seconds, settle, answer, what)


def _settle(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():
        answer.set_result(found)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()

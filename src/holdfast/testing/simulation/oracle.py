"""Sees every call that the store carried out, and says whether all promises were kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.model.records import JobRecord
from holdfast.testing.simulation.job_witness import JobWitness
from holdfast.testing.simulation.lock_witness import LockWitness
from holdfast.testing.simulation.process import SimulatedProcess
from holdfast.testing.simulation.schedule_witness import ScheduleWitness
from holdfast.testing.simulation.trace import Trace
from holdfast.testing.simulation.universe import Universe

MOST_OBJECTIONS = 20
Arguments = tuple[Any, ...]


class Oracle:
    """What it objects to is in `objections`. It trusts nothing that the store says about itself."""

    def __init__(self, universe: Universe, trace: Trace) -> None:
        self._universe = universe
        self._trace = trace
        self.objections: list[str] = []
        self.jobs = JobWitness(self.object_to)
        self.locks = LockWitness(self.object_to)
        self.schedules = ScheduleWitness(self.object_to)
        self.events = 0
        self._looks: dict[str, Callable[[Arguments, Any, int], bool]] = {
            "jobs.add": self._add,
            "jobs.tick": self._tick,
            "jobs.extend": self._extend,
            "jobs.edit": self._edit,
            "locks.acquire": self._acquire,
            "locks.renew": self._renew,
            "locks.release": self._release,
            "schedules.write": self._write,
            "events.append": self._append,
        }

    def object_to(self, what: str) -> None:
        if len(self.objections) < MOST_OBJECTIONS:
            self.objections.append(f"after {self._universe.now:.6f} s: {what}")

    def observe(self, process: SimulatedProcess, name: str, args: Arguments, answer: Any) -> None:
        """The store has carried out a call of the process."""
        look = self._looks.get(name)
        if look is not None and look(args, answer, self._universe.store_clock()):
            self._trace.note(process.name, name, (args, answer))
        else:
            self._trace.count(process.name, name)

    def compare(self, records: list[JobRecord]) -> None:
        """Objects if what is stored in the end is not what was accepted."""
        self.jobs.compare(records)

    def _add(self, args: Arguments, answer: Any, now: int) -> bool:
        self.jobs.add(args[0], answer)
        return True

    def _tick(self, args: Arguments, answer: Any, now: int) -> bool:
        self.jobs.tick(args[0], answer, now)
        for move in args[0].moves:
            self.events += len(move.events)
        return bool(args[0].moves or answer.claimed)

    def _extend(self, args: Arguments, answer: Any, now: int) -> bool:
        self.jobs.extend(args[0], args[1], answer, now)
        return bool(answer)

    def _edit(self, args: Arguments, answer: Any, now: int) -> bool:
        self.jobs.edit(args[0], args[2], answer)
        return True

    def _acquire(self, args: Arguments, answer: Any, now: int) -> bool:
        self.locks.acquire(args[0], answer, now)
        return answer.token is not None

    def _renew(self, args: Arguments, answer: Any, now: int) -> bool:
        self.locks.renew(args[0], answer, now)
        return not all(answer)

    def _release(self, args: Arguments, answer: Any, now: int) -> bool:
        name, owner, token = args
        self.locks.release(name, owner, token)
        return True

    def _write(self, args: Arguments, answer: Any, now: int) -> bool:
        if answer is None:
            return True
        writes, *terms = args
        for term in terms:
            if term is not None:
                self.locks.check_term(term, now)
        for write in self.schedules.written(writes, answer):
            self.jobs.stored(write.jobs)
        return True

    def _append(self, args: Arguments, answer: Any, now: int) -> bool:
        if len(args) > 1:
            self.jobs.add(args[1], answer)
        return True

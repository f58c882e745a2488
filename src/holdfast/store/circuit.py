"""What is known of the way to a store: whether it is worth asking, and how often it was not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from holdfast.store.partitions import Partitioned
from holdfast.store.session import Store


class CircuitState(StrEnum):
    """CLOSED lets every call through, OPEN none; HALF_OPEN waits for the end of one, a probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class CircuitReport:
    """A circuit at one moment, as this process knows it; counts begin when the store was opened."""

    state: CircuitState
    fault: str
    """Why the last try failed, without secrets; empty if none has."""
    away_seconds: float | None
    """How long no try has reached the store; None if the last one did."""
    next_probe_seconds: float | None
    """In how long the next probe is let through; None if the circuit is closed."""
    faults: int
    """Tries that did not reach the store, or lost their answer."""
    retries: int
    """Tries that were made because the one before had such a fault."""
    refused: int
    """Calls that ended without an answer because the circuit was open."""
    opened: int
    """Long outages that began."""
    closed: int
    """Long outages that ended."""
    probes: int
    """Tries that were let through while the circuit was open."""


class Circuit(Protocol):
    """The circuit breaker of a store. May be asked from any thread, and never waits for the store."""

    @property
    def state(self) -> CircuitState: ...

    def report(self) -> CircuitReport: ...


@runtime_checkable
class Guarded(Protocol):
    """What a store behind a network has beside what every store has; None if there is nothing to guard."""

    @property
    def circuit(self) -> Circuit | None: ...


def circuits(store: Store) -> dict[str, Circuit]:
    """The circuits of a store by partition, "" if it is not partitioned. One on this machine has none."""
    parts = store.parts if isinstance(store, Partitioned) else {"": store}
    found = ((name, part.circuit) for name, part in parts.items() if isinstance(part, Guarded))
    return {name: circuit for name, circuit in found if circuit is not None}

"""Simulation: the real engine, in processes, time and weather that come of a seed.

Workers, heartbeats, janitors, leaders, schedulers, consumers and locks are the engine's own code, on event
loops in simulated time, over the memory store. `face` is what applications use; `seed` and `workload` are the
search for faults of our own. What is not here: other stores, handlers in processes, and transactions.
"""

from holdfast.testing.simulation.face import SimulationFailed, Summary, simulate
from holdfast.testing.simulation.faults import NO_FAULTS, Faults
from holdfast.testing.simulation.simulation import Simulation

__all__ = ["NO_FAULTS", "Faults", "Simulation", "SimulationFailed", "Summary", "simulate"]

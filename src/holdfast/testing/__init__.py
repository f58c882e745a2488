"""Help for tests: a clock that is moved by hand, simulated crashes, and the conformance suite for stores.

`holdfast.testing.conformance` is for authors of stores; it alone needs pytest and Hypothesis.
"""

from holdfast.testing.clock import ManualClock
from holdfast.testing.simulation import Faults, Simulation, SimulationFailed, simulate

__all__ = ["Faults", "ManualClock", "Simulation", "SimulationFailed", "simulate"]

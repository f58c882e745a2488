"""Help for tests: a clock that is moved by hand, and the conformance suite for stores.

`holdfast.testing.conformance` is for authors of stores; it alone needs pytest and Hypothesis.
"""

from holdfast.testing.clock import ManualClock

__all__ = ["ManualClock"]

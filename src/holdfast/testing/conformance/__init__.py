"""The conformance suite: run it on your own store, unchanged.

A store conforms if it keeps every promise written in `holdfast.store`. Needs pytest and Hypothesis. In a test
module:

    import pytest
    from holdfast.testing import ManualClock
    from holdfast.testing.conformance import StoreConformance, Subject
    from holdfast.testing.conformance.machine import ComparedMachine

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self):
            def make() -> Subject:
                clock = ManualClock()
                return Subject(MyStore(clock=clock), clock.advance)
            return make

    class MyMachine(ComparedMachine):
        def open_store(self, clock):
            return MyStore(clock=clock)

    TestMyMachine = MyMachine.TestCase

A store with wake-ups, migrations or transactions of its own adds `WakeupPromises`, `MigrationPromises` or
`TransactionPromises` and `EventTransactionPromises` to the bases of its test class; one that keeps wants
which stand, `StandingPromises`.

The first runs every test of every topic; each test has a store from the factory and a namespace of its own,
so leftovers of other tests do no harm. The second drives your store and the memory store side by side and
compares every answer; it needs a store that takes its time from a callable. A store that cannot gives an
`advance` that really waits, and says so: `Subject(store, time.sleep, real_time=True)`. Tests that would wait
for more than ten seconds are then skipped.
"""

import pytest

TOPICS = (
    "add",
    "case",
    "children",
    "claim",
    "concurrency",
    "crossing",
    "edit",
    "events",
    "extend",
    "find",
    "fleet",
    "flow_optional",
    "idle",
    "instants",
    "keys",
    "limits",
    "links",
    "lock_sequences",
    "locks",
    "machine",
    "moves",
    "namespaces",
    "optional",
    "reclaim",
    "repeat",
    "schedules",
    "sequences",
    "standing",
    "transitions",
    "values",
    "waits",
)
# Before the imports: so that a failed assertion shows the values that it compared.
pytest.register_assert_rewrite(*(f"{__name__}.{topic}" for topic in TOPICS))

from holdfast.testing.conformance.add import AddPromises  # noqa: E402
from holdfast.testing.conformance.case import Case, Promises, Subject, promise  # noqa: E402
from holdfast.testing.conformance.children import ChildPromises  # noqa: E402
from holdfast.testing.conformance.claim import ClaimPromises  # noqa: E402
from holdfast.testing.conformance.concurrency import ConcurrencyPromises  # noqa: E402
from holdfast.testing.conformance.crossing import CrossingPromises  # noqa: E402
from holdfast.testing.conformance.edit import EditPromises  # noqa: E402
from holdfast.testing.conformance.events import EventPromises, EventTransactionPromises  # noqa: E402
from holdfast.testing.conformance.extend import ExtendPromises  # noqa: E402
from holdfast.testing.conformance.find import CountPromises, FindPromises, PrunePromises  # noqa: E402
from holdfast.testing.conformance.fleet import FleetPromises  # noqa: E402
from holdfast.testing.conformance.flow_optional import (  # noqa: E402
    FlowTransactionPromises,
    FlowWakeupPromises,
)
from holdfast.testing.conformance.instants import InstantPromises  # noqa: E402
from holdfast.testing.conformance.keys import KeyPromises  # noqa: E402
from holdfast.testing.conformance.limit_records import LimitRecordPromises  # noqa: E402
from holdfast.testing.conformance.limits import LimitPromises  # noqa: E402
from holdfast.testing.conformance.links import LinkPromises  # noqa: E402
from holdfast.testing.conformance.lock_sequences import LockSequencePromises  # noqa: E402
from holdfast.testing.conformance.locks import LockPromises  # noqa: E402
from holdfast.testing.conformance.moves import MovePromises  # noqa: E402
from holdfast.testing.conformance.namespaces import NamespacePromises  # noqa: E402
from holdfast.testing.conformance.optional import (  # noqa: E402
    MigrationPromises,
    TransactionPromises,
    WakeupPromises,
)
from holdfast.testing.conformance.reclaim import ReclaimPromises  # noqa: E402
from holdfast.testing.conformance.repeat import RepeatPromises  # noqa: E402
from holdfast.testing.conformance.schedules import SchedulePromises  # noqa: E402
from holdfast.testing.conformance.sequences import (  # noqa: E402
    ExpiryPromises,
    FairPromises,
    SequencePromises,
)
from holdfast.testing.conformance.standing import StandingBatchPromises, StandingPromises  # noqa: E402
from holdfast.testing.conformance.transitions import TransitionPromises  # noqa: E402
from holdfast.testing.conformance.values import ValuePromises  # noqa: E402
from holdfast.testing.conformance.waits import HeldPromises, WaitPromises  # noqa: E402

__all__ = [
    "Case",
    "EventTransactionPromises",
    "FlowPromises",
    "FlowTransactionPromises",
    "FlowWakeupPromises",
    "LockPromises",
    "MigrationPromises",
    "Promises",
    "StandingBatchPromises",
    "StandingPromises",
    "StoreConformance",
    "Subject",
    "TransactionPromises",
    "WakeupPromises",
    "promise",
]


class FlowPromises(
    LimitRecordPromises, LimitPromises, SequencePromises, FairPromises, ExpiryPromises, LinkPromises
):
    """All that `FlowStore` promises."""


class StoreConformance(
    AddPromises,
    KeyPromises,
    ClaimPromises,
    MovePromises,
    ChildPromises,
    RepeatPromises,
    ExtendPromises,
    ReclaimPromises,
    EditPromises,
    FindPromises,
    CountPromises,
    PrunePromises,
    FleetPromises,
    WaitPromises,
    LockPromises,
    LockSequencePromises,
    HeldPromises,
    SchedulePromises,
    EventPromises,
    FlowPromises,
    InstantPromises,
    NamespacePromises,
    ValuePromises,
    TransitionPromises,
    ConcurrencyPromises,
    CrossingPromises,
):
    """Every topic that each store must keep. A subclass named `Test…` gives the fixture `make_store`."""

"""The circuit is closed, open or half-open, and says so: in its report, in the log, to who asks the store."""

import logging

import pytest

from holdfast.model.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.partition import Layout, parse
from holdfast.store import Store
from holdfast.store.circuit import Circuit, CircuitState, circuits
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import Breaker, ResilientStore
from tests.docs.page import ROOT
from tests.resilient.rig import DOWN, LOST, Rig, Time, claim, job

CLOSED, OPEN, HALF_OPEN = CircuitState.CLOSED, CircuitState.OPEN, CircuitState.HALF_OPEN


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def breaker(time: Time) -> Breaker:
    return Breaker(clock=time.clock, failures=2, outage_seconds=1)


def open_it(breaker: Breaker, time: Time) -> None:
    breaker.failed(DOWN)
    time.now += 1
    breaker.failed(DOWN)


def test_a_new_one_is_closed_and_has_nothing_to_tell(breaker: Breaker) -> None:
    report = breaker.report()
    assert (report.state, report.fault, report.away_seconds, report.next_probe_seconds) == (
        CLOSED,
        "",
        None,
        None,
    )
    assert (report.faults, report.retries, report.refused) == (0, 0, 0)
    assert (report.opened, report.closed, report.probes) == (0, 0, 0)


def test_it_is_open_then_half_open_while_a_probe_is_under_way_then_closed(
    breaker: Breaker, time: Time
) -> None:
    open_it(breaker, time)
    assert breaker.state is OPEN
    time.now += 1.5
    assert breaker.state is OPEN, "nobody has called yet"
    breaker.admit()
    assert breaker.state is HALF_OPEN
    breaker.failed(DOWN)
    assert breaker.state is OPEN
    time.now += 1.5
    breaker.admit()
    breaker.succeeded()
    assert breaker.state is CLOSED
    report = breaker.report()
    assert (report.opened, report.probes, report.closed, report.faults) == (1, 2, 1, 3)


def test_while_it_is_half_open_others_are_refused(breaker: Breaker, time: Time) -> None:
    open_it(breaker, time)
    time.now += 1.5
    breaker.admit()
    with pytest.raises(StoreUnavailable, match="nothing was sent"):
        breaker.admit()
    assert breaker.state is HALF_OPEN


def test_a_report_tells_how_long_the_store_is_away_and_when_the_next_probe_is(
    breaker: Breaker, time: Time
) -> None:
    open_it(breaker, time)
    time.now += 0.25
    report = breaker.report()
    assert report.away_seconds == 1.25
    assert report.next_probe_seconds is not None
    assert 0.25 <= report.next_probe_seconds <= 1.25
    time.now += 60
    assert breaker.report().next_probe_seconds == 0
    breaker.succeeded()
    assert breaker.report().away_seconds is None
    assert breaker.report().next_probe_seconds is None
    assert breaker.report().fault == "connection refused", "why it was away is still worth knowing"


def test_a_report_hides_secrets(breaker: Breaker) -> None:
    breaker.failed(StoreUnavailable("redis://:hunter2@cache/0: connection refused"))
    assert breaker.report().fault == "redis://:***@cache/0: connection refused"


def test_each_change_is_one_line_of_the_log_and_a_probe_one_for_debugging(
    breaker: Breaker, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "holdfast.store"):
        open_it(breaker, time)
        time.now += 1.5
        breaker.admit()
        breaker.succeeded()
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "circuit opened"),
        ("DEBUG", "circuit half-open"),
        ("WARNING", "circuit closed"),
    ]
    assert [each.__dict__["fields"] for each in caplog.records] == [
        {"failures": 2, "seconds": 1.0, "error": "connection refused"},
        {"seconds": 2.5, "error": "connection refused"},
        {"seconds": 2.5},
    ]


def test_the_operators_page_names_these_lines() -> None:
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    source = (ROOT / "src/holdfast/stores/resilient/breaker.py").read_text(encoding="utf-8")
    for line in ("circuit opened", "circuit half-open", "circuit closed"):
        assert f'"{line}"' in source
        assert f"`{line}`" in page


async def test_tries_after_the_first_are_counted_as_retries() -> None:
    rig = Rig()
    session = await rig.open()
    rig.faults.plan("get", before=DOWN, times=3)
    await session.jobs.get("a")
    rig.faults.plan("add", after=LOST)
    await session.jobs.add([job("b")])
    report = rig.breaker.report()
    assert (report.faults, report.retries, report.refused, report.opened) == (4, 4, 0, 0)


async def test_a_call_that_works_counts_nothing() -> None:
    rig = Rig()
    session = await rig.open()
    before = rig.breaker.report()
    await session.jobs.add([job("b")])
    assert rig.breaker.report() == before


async def test_a_call_that_is_refused_counts_once_even_if_it_has_waited_for_its_probe() -> None:
    rig = Rig(retry_seconds=0.1)
    session = await rig.open()
    await rig.open_circuit(session)
    before = rig.breaker.report()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="nothing was sent"):
            await session.jobs.add([job("b")])
    with pytest.raises(StoreUnavailable, match="nothing was sent"):
        await session.jobs.tick(claim())
    report = rig.breaker.report()
    assert report.refused - before.refused == 4
    assert (report.faults, report.retries) == (before.faults, before.retries)


async def test_a_probe_that_fails_is_a_fault_and_not_a_refusal() -> None:
    rig = Rig()
    session = await rig.open()
    await rig.open_circuit(session)
    before = rig.breaker.report()
    rig.time.now += 1.5
    with pytest.raises(StoreUnavailable, match="connection refused"):
        await session.jobs.get("a")
    report = rig.breaker.report()
    assert (report.faults - before.faults, report.refused - before.refused) == (1, 0)
    assert report.probes - before.probes == 1


async def test_a_call_that_is_refused_after_an_unknown_outcome_counts_and_stays_unknown() -> None:
    rig = Rig(retry_seconds=0.1)
    session = await rig.open()
    await rig.open_circuit(session)
    rig.time.now += 1.5
    rig.faults.down = None
    rig.faults.plan("tick", after=LOST)
    with pytest.raises(OutcomeUnknown, match="sending it again failed: the store has been unreachable"):
        await session.jobs.tick(claim())
    assert rig.breaker.report().refused == 1


class Parts:
    """A store of several, of which some are guarded."""

    migrations = None
    transactions = None

    def __init__(self, **parts: Store) -> None:
        self.parts = parts

    @property
    def layout(self) -> Layout:
        return parse("partition://?a=memory://a&b=memory://b")


def test_a_store_that_is_wrapped_shows_its_circuit_and_another_has_none() -> None:
    breaker = Breaker()
    wrapped: Store = ResilientStore(MemoryStore(), breaker=breaker)
    found: dict[str, Circuit] = circuits(wrapped)
    assert found == {"": breaker}
    assert circuits(MemoryStore()) == {}


def test_the_circuits_of_partitions_are_told_by_name() -> None:
    breaker = Breaker()
    several = Parts(a=MemoryStore(), b=ResilientStore(MemoryStore(), breaker=breaker))
    assert circuits(several) == {"b": breaker}  # type: ignore[arg-type]

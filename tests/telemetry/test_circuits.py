"""The circuit of a store behind a network is told in numbers, and in the same ones wherever it is."""

from holdfast import Holdfast
from holdfast.engine.notices import Notices
from holdfast.model.errors import StoreUnavailable
from holdfast.model.overview import QueueInfo
from holdfast.store import Store
from holdfast.store.circuit import CircuitState
from holdfast.telemetry.metrics import Metrics
from tests.resilient.rig import DOWN, Rig, job
from tests.telemetry.samples import read


class Served:
    """An application on this store that nobody has opened."""

    def __init__(self, store: Store) -> None:
        self.notices = Notices()
        self.store = store

    @property
    def queues(self) -> "Served":
        return self

    async def list(self, *, exact: bool = True) -> list[QueueInfo]:
        raise StoreUnavailable("nobody asks")


def states(samples: dict[str, float], partition: str = "") -> dict[str, float]:
    return {
        state: samples[f"holdfast_store_circuit_state{{partition={partition},state={state}}}"]
        for state in CircuitState
    }


async def test_an_outage_is_counted_from_its_first_fault_to_its_end() -> None:
    rig = Rig()
    metrics = Metrics(Served(rig.store))
    assert states(read(metrics.render())) == {"closed": 1, "open": 0, "half-open": 0}
    session = await rig.open()
    await rig.open_circuit(session)
    for _ in range(3):
        try:
            await session.jobs.add([job("b")])
        except StoreUnavailable:
            continue
    samples = read(metrics.render())
    assert states(samples) == {"closed": 0, "open": 1, "half-open": 0}
    assert samples["holdfast_store_circuit_opened_total{partition=}"] == 1
    assert samples["holdfast_store_circuit_closed_total{partition=}"] == 0
    assert samples["holdfast_store_refusals_total{partition=}"] == 3
    assert samples["holdfast_store_faults_total{partition=}"] == rig.faults.count("get")
    assert 0 < samples["holdfast_store_retries_total{partition=}"] < rig.faults.count("get")
    rig.time.now += 1.5
    rig.breaker.admit()
    assert states(read(metrics.render())) == {"closed": 0, "open": 0, "half-open": 1}
    rig.breaker.succeeded()
    samples = read(metrics.render())
    assert states(samples) == {"closed": 1, "open": 0, "half-open": 0}
    assert samples["holdfast_store_circuit_closed_total{partition=}"] == 1
    assert samples["holdfast_store_probes_total{partition=}"] == 1


async def test_an_outage_is_told_by_who_looks_only_now() -> None:
    rig = Rig()
    await rig.open_circuit(await rig.open())
    assert states(read(Metrics(Served(rig.store)).render()))["open"] == 1


async def test_what_was_counted_stays_as_it_was_when_they_are_closed() -> None:
    rig = Rig()
    metrics = Metrics(Served(rig.store))
    rig.breaker.failed(DOWN)
    metrics.close()
    rig.breaker.failed(DOWN)
    assert read(metrics.render())["holdfast_store_faults_total{partition=}"] == 1


def test_a_store_on_this_machine_has_no_circuit_to_tell_of() -> None:
    text = Metrics(Holdfast("memory://")).render()
    assert "# TYPE holdfast_store_circuit_state gauge" in text
    assert "holdfast_store_circuit_state{" not in text
    assert "holdfast_store_faults_total{" not in text


def test_a_postgresql_store_tells_of_its_circuit_before_it_is_opened() -> None:
    samples = read(Metrics(Holdfast("postgresql://127.0.0.1:1/nowhere")).render())
    assert states(samples) == {"closed": 1, "open": 0, "half-open": 0}

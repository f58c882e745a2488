"""The metrics as instruments of a meter: the same names, the same values."""

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from holdfast import Holdfast
from holdfast.model.report import BOUNDS
from holdfast.telemetry.catalogue import CATALOGUE
from holdfast.telemetry.metrics import Metrics
from holdfast.telemetry.otel import OpenTelemetryMetrics, name_of
from tests.telemetry.samples import read


def read_all(reader: InMemoryMetricReader) -> dict[str, list[object]]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


async def test_every_metric_is_an_instrument_with_the_same_value() -> None:
    app = Holdfast("memory://")

    @app.task
    async def work() -> None: ...

    reader = InMemoryMetricReader()
    metrics = Metrics(app)
    exported = OpenTelemetryMetrics(metrics, meter_provider=MeterProvider([reader]))
    async with app, app.worker():
        job = await work.enqueue()
        await job.result(timeout=10)
        await metrics.measure()
    found = read_all(reader)
    [attempts] = found["holdfast.attempts"]
    assert dict(attempts.attributes) == {"task": "work", "outcome": "success"}  # type: ignore[attr-defined]
    assert attempts.value == 1  # type: ignore[attr-defined]
    [depth] = found["holdfast.queue_depth"]
    assert (dict(depth.attributes), depth.value) == ({"queue": "default"}, 0)  # type: ignore[attr-defined]
    [lateness] = found["holdfast.job_lateness"]
    assert lateness.count == 1  # type: ignore[attr-defined]
    assert lateness.explicit_bounds == BOUNDS  # type: ignore[attr-defined]
    assert set(found) <= {name_of(each) for each in CATALOGUE}
    app.notices.tell("lock_acquired", lock="a", token=1, waited=0.5)
    [grants] = read_all(reader)["holdfast.lock_grants"]
    assert grants.value == 1, "each collection has a moment of its own"  # type: ignore[attr-defined]
    exported.close()
    app.notices.tell("lock_acquired", lock="a", token=2, waited=0.5)
    assert "holdfast.lock_grants" not in read_all(reader)


async def test_prometheus_gets_the_same_names_by_way_of_opentelemetry() -> None:
    registry = CollectorRegistry()
    app = Holdfast("memory://")
    metrics = Metrics(app)
    OpenTelemetryMetrics(metrics, meter_provider=MeterProvider([PrometheusMetricReader(registry=registry)]))
    app.notices.tell("lock_acquired", lock="a", token=1, waited=0.5)
    app.notices.tell("schedule_missed", schedule="s", count=3)
    text = generate_latest(registry).decode()
    assert "holdfast_lock_wait_seconds_bucket" in text
    assert "holdfast_schedules_missed_total" in text
    ours = {name.partition("{")[0] for name in read(metrics.render())}
    theirs = {line.partition("{")[0] for line in text.splitlines() if line.startswith("holdfast_")}
    assert "holdfast_lock_wait_seconds_count" in ours & theirs
    assert theirs <= ours | {each.name for each in CATALOGUE}

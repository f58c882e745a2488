"""What metrics tell, read as Prometheus reads it, and an application to tell of."""

from prometheus_client.parser import text_string_to_metric_families

from holdfast.engine.notices import Notices
from holdfast.model.overview import QueueInfo
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.telemetry.metrics import Metrics
from tests.engine.rig import Rig


def read(text: str) -> dict[str, float]:
    """Every sample by its name and labels, as `name{label=value}`."""
    return {
        sample.name
        + "{"
        + ",".join(f"{name}={value}" for name, value in sample.labels.items())
        + "}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str) -> float:
    """One sample; 0 if it is not there. Without labels `name` is enough."""
    samples = read(metrics.render())
    return samples.get(name if name.endswith("}") else name + "{}", 0)


class Silent:
    """An application whose store does not answer, until it does."""

    def __init__(self) -> None:
        self.notices = Notices()
        self.store: Store = MemoryStore()
        self.error: Exception | None = None
        self.found: list[QueueInfo] = []

    @property
    def queues(self) -> "Silent":
        return self

    async def list(self, *, exact: bool = True) -> list[QueueInfo]:
        if self.error is not None:
            raise self.error
        return self.found


def rigged(rig: Rig) -> Metrics:
    app = Silent()
    app.notices = rig.notices
    return Metrics(app)

"""Values of flow control for the machine to draw."""

from hypothesis import strategies as st

from holdfast.model.flow import LimitRecord, NewFlow, Scope, gate
from holdfast.model.records import NewJob
from holdfast.model.timing import SECOND
from holdfast.testing.conformance import draws

LIMIT_KEYS = ("m", "n")
SEQUENCES = ("s", "z")
NAMES = {
    Scope.QUEUE: draws.QUEUES,
    Scope.TASK: draws.TASKS,
    Scope.KEY: LIMIT_KEYS,
    Scope.EACH_KEY: draws.TASKS,
}
GATES = tuple(gate(scope, name) for scope, names in NAMES.items() for name in names)

sequences = st.sampled_from(SEQUENCES)
places = st.sampled_from([(scope, name) for scope, names in NAMES.items() for name in names])

flows = st.builds(
    NewFlow,
    limit_key=st.none() | st.sampled_from(LIMIT_KEYS),
    fair_key=st.none() | st.sampled_from(LIMIT_KEYS),
    sequence=st.none() | sequences,
    halts=st.booleans(),
    after=st.just(()) | st.lists(draws.ids, max_size=3).map(tuple),
    after_any=st.booleans(),
    before=st.none() | draws.ids,
    held=st.sampled_from([False, False, False, True]),
    expires=st.sampled_from([None, None, 0, SECOND, 3 * SECOND]),
)

flow_jobs = st.builds(
    NewJob,
    id=draws.ids,
    task=draws.tasks,
    queue=draws.queues,
    payload=draws.payloads,
    priority=draws.priorities,
    delay=draws.delays,
    key=st.sampled_from([None, None, None, *draws.KEYS]),
    flow=flows,
)


def _limit(place: tuple[Scope, str], way: str, declared: bool) -> LimitRecord:
    ways = {
        "one": LimitRecord(scope=place[0], name=place[1], concurrency=1, declared=declared),
        "two": LimitRecord(scope=place[0], name=place[1], concurrency=2, declared=declared),
        "paused": LimitRecord(scope=place[0], name=place[1], paused=True, declared=declared),
        "rate": LimitRecord(scope=place[0], name=place[1], rate=1, period=2 * SECOND, declared=declared),
        "burst": LimitRecord(scope=place[0], name=place[1], rate=2, period=2 * SECOND, burst=2),
        "weight": LimitRecord(scope=place[0], name=place[1], weight=2.0),
    }
    return ways[way]


limits = st.builds(
    _limit,
    place=places,
    way=st.sampled_from(["one", "one", "two", "two", "paused", "rate", "burst", "weight"]),
    declared=st.sampled_from([False, False, True]),
)

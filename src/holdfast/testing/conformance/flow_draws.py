"""Values of flow control for the machine to draw."""

from hypothesis import strategies as st

from holdfast.model.flow import LimitRecord, NewFlow, Scope, gate
from holdfast.model.lifecycle import DEAD_LETTERED, RETRIED, SUCCEEDED, Ending
from holdfast.model.records import Move, NewJob
from holdfast.model.timing import SECOND
from holdfast.testing.conformance import draws

LIMIT_KEYS = ("m", "n")
SEQUENCES = ("s", "z")
MORE_IDS = tuple(f"018f0000-0000-7000-8000-{number:012x}" for number in range(14, 26))
NAMES = {
    Scope.QUEUE: draws.QUEUES,
    Scope.TASK: draws.TASKS,
    Scope.KEY: LIMIT_KEYS,
    Scope.EACH_KEY: draws.TASKS,
}
GATES = tuple(gate(scope, name) for scope, names in NAMES.items() for name in names)

sequences = st.sampled_from(SEQUENCES)
places = st.sampled_from([(scope, name) for scope, names in NAMES.items() for name in names])

ids = draws.ids | st.sampled_from(MORE_IDS)
limit_keys = st.sampled_from(LIMIT_KEYS)
mixed_flows = st.builds(
    NewFlow,
    limit_key=st.none() | limit_keys,
    fair_key=st.none() | limit_keys,
    sequence=st.none() | sequences,
    halts=st.booleans(),
    after=st.just(()) | st.lists(ids, max_size=3).map(tuple),
    after_any=st.booleans(),
    before=st.none() | ids,
    held=st.sampled_from([False, False, False, True]),
    expires=st.sampled_from([None, None, 0, SECOND, 3 * SECOND]),
)
flows = st.one_of(
    st.builds(NewFlow, limit_key=limit_keys, fair_key=st.none() | limit_keys),
    st.builds(NewFlow, sequence=sequences, halts=st.booleans()),
    st.builds(NewFlow, sequence=sequences, halts=st.booleans(), limit_key=limit_keys),
    st.builds(NewFlow, after=st.lists(ids, min_size=1, max_size=2).map(tuple), after_any=st.booleans()),
    st.builds(NewFlow, before=ids, fair_key=st.none() | limit_keys),
    mixed_flows,
)

flow_jobs = st.builds(
    NewJob,
    id=ids,
    task=draws.tasks,
    queue=draws.queues,
    payload=draws.payloads,
    priority=draws.priorities,
    delay=st.sampled_from([0, 0, 0, 0, 0, SECOND]),
    key=st.sampled_from([None, None, None, None, None, *draws.KEYS]),
    flow=flows,
)


def work_of(job: str, token: int) -> st.SearchStrategy[Move]:
    """Moves that end the attempt of this token, most of them with success, some for good without."""
    ways = [*[(SUCCEEDED, Ending.SUCCESS)] * 3, (DEAD_LETTERED, Ending.FAILED), (RETRIED, Ending.RETRY)]
    return st.sampled_from(ways).map(
        lambda way: Move(job=job, token=token, path=way[0], outcome=way[1], elapsed=0)
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

"""Values for the machine to draw: few names and ids, so that they meet often."""

from hypothesis import strategies as st

from holdfast.model.events import NewEvent
from holdfast.model.lifecycle import (
    CANCELLED_RUNNING,
    CANCELLED_UNSTARTED,
    DEAD_LETTERED,
    FAILED_FOR_GOOD,
    INTERRUPTED,
    RELEASED_AT_ONCE,
    REPLAYED,
    RETRIED,
    RETURNED,
    STARTED,
    SUCCEEDED,
    Ending,
    Path,
    State,
)
from holdfast.model.records import Edit, Extension, Move, NewJob, Query, Want
from holdfast.model.timing import SECOND

IDS = tuple(f"018f0000-0000-7000-8000-{number:012x}" for number in range(14))
WORKERS = ("ann", "bob", "cid")
QUEUES = ("a", "b")
TASKS = ("t", "u")
KEYS = ("k", "l")
EVENT_IDS = tuple(f"e{number:02}" for number in range(24))

ENDS: tuple[tuple[Path, Ending], ...] = (
    (SUCCEEDED, Ending.SUCCESS),
    (RETRIED, Ending.RETRY),
    (RELEASED_AT_ONCE, Ending.RETRY),
    (DEAD_LETTERED, Ending.FAILED),
    (FAILED_FOR_GOOD, Ending.FAILED),
    (RETURNED, Ending.RELEASED),
    (INTERRUPTED, Ending.RELEASED),
    (CANCELLED_UNSTARTED, Ending.CANCELLED),
    (CANCELLED_RUNNING, Ending.CANCELLED),
)
STRANGE: tuple[tuple[Path, Ending | None], ...] = (
    (REPLAYED, Ending.SUCCESS),
    ((State.CLAIMED, State.SUCCESS), Ending.SUCCESS),
    ((State.RUNNING, State.CLAIMED), None),
    ((State.SCHEDULED, State.CLAIMED), None),
    (SUCCEEDED, None),
    (STARTED, Ending.SUCCESS),
)
EDIT_PATHS: tuple[Path, ...] = (
    (State.SCHEDULED, State.CANCELLED),
    (State.RETRY, State.CANCELLED),
    (State.RETRY, State.SCHEDULED),
    REPLAYED,
    (State.FAILED, State.SCHEDULED),
    (State.FAILED, State.DLQ),
    (State.SUCCESS, State.SCHEDULED),
    (State.SCHEDULED, State.CLAIMED),
)

ids = st.sampled_from(IDS)
workers = st.sampled_from(WORKERS)
queues = st.sampled_from(QUEUES)
tasks = st.sampled_from(TASKS)
keys = st.sampled_from(KEYS)
topics = st.sampled_from(["x", "y"])
aggregates = st.sampled_from(["a", "b"])
payloads = st.sampled_from([b"[]", b"[1]"])
fleet_changes = st.sampled_from(
    [
        "register",
        "register",
        "resume",
        "register briefly",
        "beat",
        "beat and report",
        "retire",
        "pause",
    ]
)
priorities = st.integers(-1, 1)
leases = st.sampled_from([SECOND, 3 * SECOND, 60 * SECOND])
delays = st.sampled_from([0, 0, 0, 0, 1, SECOND, 5 * SECOND])
ages = st.sampled_from([None, None, 0, SECOND, 5 * SECOND])
steps = st.sampled_from([0, 1, 1_000, SECOND - 1, SECOND, 3 * SECOND, 5 * SECOND])
elapsed = st.none() | st.sampled_from([0, 1_000])

new_jobs = st.builds(
    NewJob,
    id=ids,
    task=tasks,
    queue=queues,
    payload=payloads,
    priority=priorities,
    due=st.sampled_from([None, None, None, 0, 1_800_000_002 * SECOND]),
    delay=delays,
    key=st.sampled_from([None, None, None, *KEYS]),
    key_ttl=st.sampled_from([0, SECOND, 10 * SECOND]),
    tags=st.sampled_from([(), ("x",), ("x", "y")]),
    lease=st.none() | leases,
)

new_events = st.builds(
    NewEvent,
    id=st.sampled_from(EVENT_IDS),
    topic=topics,
    type=st.just("told"),
    data=payloads,
    aggregate=st.none() | aggregates,
    headers=st.none() | st.just(b"{}"),
)

wants = st.builds(
    Want,
    queues=st.sampled_from([QUEUES, QUEUES[::-1], QUEUES[:1]]),
    tasks=st.sampled_from([frozenset(TASKS), frozenset(TASKS), frozenset(TASKS[:1]), frozenset[str]()]),
    limit=st.sampled_from([1, 2, 3, 4, 0]),
    lease=leases,
)

queries = st.builds(
    Query,
    states=st.just(frozenset[State]()) | st.frozensets(st.sampled_from(State), max_size=3),
    queue=st.none() | queues,
    task=st.none() | tasks,
    tag=st.none() | st.sampled_from(["x", "y"]),
    worker=st.none() | workers,
    due_before=st.none() | st.just(1_800_000_002 * SECOND),
    due_after=st.none() | st.just(1),
    cursor=st.none() | ids,
    limit=st.integers(1, 6),
)

edits = st.builds(
    Edit,
    path=st.just(()) | st.sampled_from(EDIT_PATHS),
    queue=st.none() | queues,
    priority=st.none() | priorities,
    due=st.none() | st.just(0),
    delay=st.none() | delays,
    tags=st.none() | st.just(("z",)),
    failures=st.none() | st.just(0),
    lost=st.none() | st.just(0),
    suspect=st.none() | st.booleans(),
    reason=st.none() | st.just("edited"),
    key=st.none() | keys,
    key_ttl=st.sampled_from([0, 3 * SECOND]),
) | st.just(Edit(ask_cancel=True))


def ends_of(job: str, token: int) -> st.SearchStrategy[Move]:
    """Moves that end the attempt of this token, or start it."""
    ways = st.sampled_from([*ENDS, *[(STARTED, None)] * 3])
    return ways.flatmap(lambda way: _moves(job, token, *way, if_expired=False))


def reclaims_of(job: str, token: int) -> st.SearchStrategy[Move]:
    paths = st.sampled_from([RETRIED, DEAD_LETTERED])
    return paths.flatmap(lambda path: _moves(job, token, path, Ending.LOST, if_expired=True))


def strange_of(job: str, token: int) -> st.SearchStrategy[Move]:
    """Moves of which most must be refused: by their token, by their path, or as early reclaims."""
    wrong_token = st.tuples(st.sampled_from(ENDS), st.sampled_from([-1, 1]), st.just(False))
    wrong_path = st.tuples(st.sampled_from(STRANGE), st.just(0), st.just(False))
    early = st.tuples(st.sampled_from(ENDS), st.just(0), st.just(True))
    ways = wrong_token | wrong_path | early
    return ways.flatmap(lambda way: _moves(job, token + way[1], *way[0], if_expired=way[2]))


def _moves(
    job: str, token: int, path: Path, outcome: Ending | None, *, if_expired: bool
) -> st.SearchStrategy[Move]:
    return st.builds(
        Move,
        job=st.just(job),
        token=st.just(token),
        path=st.just(path),
        outcome=st.just(outcome),
        elapsed=elapsed,
        delay=st.none() | delays,
        failures=st.integers(0, 2),
        lost=st.integers(0, 2),
        suspect=st.booleans(),
        reason=st.sampled_from([None, "why"]),
        error=st.sampled_from([None, "trace"]),
        result=st.sampled_from([None, b"[3]"]),
        children=st.lists(new_jobs, max_size=2).map(tuple) | st.just(()),
        events=st.just(()) | st.lists(new_events, max_size=0 if outcome is None else 2).map(tuple),
        if_expired=st.just(if_expired),
    )


def extensions_of(job: str, token: int) -> st.SearchStrategy[Extension]:
    return st.builds(
        Extension,
        job=st.just(job),
        token=st.just(token),
        lease=leases,
        elapsed=elapsed,
        progress=st.none() | st.sampled_from([0.0, 0.5]),
        progress_note=st.none() | st.just("note"),
    )

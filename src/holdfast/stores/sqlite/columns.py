"""Which columns a job has, how they travel out of the database in one row, and back in with one statement.

Each call into SQLite gives up the interpreter several times and must get it back, which under load costs more
than the statement. So rows do not travel one by one: names and numbers are one JSON array, and long values
one run of bytes beside it, which also keeps them as they are, whatever is in them.

Statements here call a live or finished job `j`, its body `b`, a row on its way in `f`, and parameters that
are used more than once `p`.
"""

import msgspec

from holdfast.model.lifecycle import State

STATES: tuple[State, ...] = (
    State.SCHEDULED,
    State.CLAIMED,
    State.RUNNING,
    State.SUCCESS,
    State.FAILED,
    State.RETRY,
    State.DLQ,
    State.CANCELLED,
)
"""A state is stored as its place here. Never change the order."""

CODES: dict[State, int] = {state: code for code, state in enumerate(STATES)}


class FlowRow(msgspec.Struct, array_like=True, gc=False):
    """The flow of a stored job."""

    limit_key: str | None
    fair_key: str | None
    rank: int | None
    sequence: str | None
    halts: int | None
    after_any: int | None
    expires: int | None
    parked: str | None
    unmet: int | None


class Row(msgspec.Struct, array_like=True, gc=False):
    """A stored job without its long values, of which it has the lengths."""

    id: str
    task: str
    queue: str
    state: int
    priority: int
    due: int
    created: int
    run: int
    failures: int
    lost: int
    suspect: int
    version: int
    token: int
    worker: str | None
    lease_until: int | None
    lease: int | None
    timeout: int | None
    key: str | None
    tags: str | None
    started: int | None
    finished: int | None
    cancel_asked: int
    progress: str | None
    progress_note: str | None
    reason: str | None
    error: str | None
    flow: FlowRow | None
    result: int | None
    retry: int | None
    headers: int | None
    payload: int


LONG = {"result": "j.result", "retry": "b.retry", "headers": "b.headers", "payload": "b.payload"}
SHORT = tuple(name for name in Row.__struct_fields__ if name not in LONG)
CHANGED = (
    "state",
    "queue",
    "priority",
    "due",
    "failures",
    "lost",
    "suspect",
    "version",
    "started",
    "finished",
    "cancel_asked",
    "key",
    "tags",
)
"""What a change may set besides the long values below; everything else stays as it is stored."""

CHANGED_TEXTS = ("reason", "error")
FLOW = ("limit_key", "fair_key", "sequence", "turn", "halts", "after_any", "expires", "unmet")
"""What is stored of a flow beside rank and gate."""

_KEPT = (
    "ns",
    "id",
    "task",
    "run",
    "token",
    "created",
    "lease",
    "timeout",
    "progress",
    "progress_note",
    *FLOW,
)
_ROWS = "(SELECT :long AS long) AS p CROSS JOIN json_each(:rows) AS f"


def _flow(gate: str) -> dict[str, str]:
    """The columns of a flow, in the order of its fields."""
    told = {name: f"j.{name}" for name in FlowRow.__struct_fields__}
    return {**told, "rank": "CASE WHEN j.fair_key IS NULL THEN NULL ELSE j.rank END", "parked": gate}


def flow_array(gate: str) -> str:
    """The flow as a JSON array, NULL for most jobs."""
    columns = _flow(gate)
    some = ", ".join(column for name, column in columns.items() if name != "rank")
    return f"CASE WHEN coalesce({some}) IS NULL THEN NULL ELSE json_array({', '.join(columns.values())}) END"


_LIVE = {"finished": "NULL", "flow": flow_array("j.gate")}
_DONE = {"worker": "NULL", "lease_until": "NULL", "flow": flow_array("NULL")}
PLAIN = (*(name for name in SHORT if name != "flow"), *FlowRow.__struct_fields__, *LONG)
"""The columns of a job that is read by itself."""


def _outgoing(instead: dict[str, str]) -> str:
    """Two columns: the JSON array of all rows, and the run of their long values."""
    short = [instead.get(name, f"j.{name}") for name in SHORT]
    lengths = [f"length(CAST({column} AS BLOB))" for column in LONG.values()]
    run = " || ".join([f"ifnull({column}, '')" for column in list(LONG.values())[:-1]] + [LONG["payload"]])
    return f"json_group_array(json_array({', '.join([*short, *lengths])})), group_concat({run}, '')"


def _plain(instead: dict[str, str], gate: str) -> str:
    columns = {**instead, **_flow(gate), **LONG}
    return ", ".join(columns.get(name, f"j.{name}") for name in PLAIN)


def _value(place: int) -> str:
    return f"json_extract(f.value, '$[{place}]')"


def _slice(place: int) -> str:
    return f"substr(p.long, {_value(place)}, {_value(place + 1)})"


def _text(place: int) -> str:
    return f"CAST({_slice(place)} AS TEXT)"


def _incoming() -> dict[str, str]:
    """For each column that a change sets, where it is in the row that comes in: the job's id is at 0."""
    columns = {name: _value(place) for place, name in enumerate(CHANGED, start=1)}
    place = len(columns) + 1
    for name in CHANGED_TEXTS:
        columns[name] = _text(place)
        place += 2
    columns["result"] = _slice(place)
    return columns


def _move(source: str, target: str, pk: str, body: str, without: str, more: dict[str, str]) -> str:
    """Copies jobs from one table to the other with their changes."""
    columns = {body: f"j.{pk}", **{name: f"j.{name}" for name in _KEPT}, **_incoming(), **more}
    columns.pop(without, None)
    return (
        f"INSERT INTO {target} ({', '.join(columns)}) SELECT {', '.join(columns.values())} "
        f"FROM {_ROWS} CROSS JOIN {source} AS j INDEXED BY {source}_id "
        f"WHERE j.ns = :ns AND j.id = {_value(0)}"
    )


def _change(table: str, without: str, more: dict[str, str]) -> str:
    """Changes jobs where they stand; the limit makes SQLite begin with the rows that come in."""
    columns = _incoming()
    columns.pop(without, None)
    sets = [f"{name} = e.{name}" for name in columns] + [f"{name} = {new}" for name, new in more.items()]
    values = [f"{expression} AS {name}" for name, expression in columns.items()]
    return (
        f"UPDATE {table} AS j SET {', '.join(sets)} FROM ("
        f"SELECT k.pk AS pk, {', '.join(values)} "
        f"FROM {_ROWS} CROSS JOIN {table} AS k INDEXED BY {table}_id "
        f"WHERE k.ns = :ns AND k.id = {_value(0)} LIMIT -1) AS e WHERE j.pk = e.pk"
    )


def _attempts() -> str:
    short = ("job", "token", "run", "worker", "closer", "started", "finished", "outcome")
    columns = {name: _value(place) for place, name in enumerate(short)}
    columns["reason"] = _text(len(short))
    columns["error"] = _text(len(short) + 2)
    return (
        f"INSERT INTO holdfast_attempt (ns, {', '.join(columns)}) "
        f"SELECT :ns, {', '.join(columns.values())} FROM {_ROWS} WHERE true "
        "ON CONFLICT (ns, job, token) DO UPDATE SET outcome = excluded.outcome"
    )


_DUE = _value(CHANGED.index("due") + 1)
_RANK = "CASE WHEN j.fair_key IS NULL THEN {due} ELSE j.rank END"
PARTS = {"{records}": _outgoing(_LIVE), "{records_done}": _outgoing(_DONE)}
PLAIN_PARTS = {"{records}": _plain(_LIVE, "j.gate"), "{records_done}": _plain(_DONE, "NULL")}
STATEMENTS = {
    "change_live": _change(
        "holdfast_job",
        "finished",
        {
            "ready": "CASE WHEN j.gate = 'after' THEN NULL ELSE e.due <= :now END",
            "gate": "CASE WHEN j.gate = 'after' THEN j.gate END",
            "rank": _RANK.format(due="e.due"),
            "worker": "NULL",
            "seq": "NULL",
            "lease_until": "NULL",
        },
    ),
    "change_done": _change("holdfast_done", "", {}),
    "finish": _move("holdfast_job", "holdfast_done", "pk", "body", "", {"rank": "j.rank"}),
    "revive": _move(
        "holdfast_done",
        "holdfast_job",
        "body",
        "pk",
        "finished",
        {"ready": f"{_DUE} <= :now", "rank": _RANK.format(due=_DUE)},
    ),
    "record_attempts": _attempts(),
}

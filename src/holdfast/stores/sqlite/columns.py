"""Which columns a job has, how they travel out of the database in one row, and back in with one statement.

Each call into SQLite gives up the interpreter and must get it back, which under load costs more than the
statement. So rows do not travel one by one: names and numbers are one JSON array, and long values one run of
bytes beside it, which also keeps them as they are, whatever is in them.
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

LONG = ("result", "retry", "headers", "payload")
LONG_TEXT = ("progress_note", "reason", "error")


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
    result: int | None
    retry: int | None
    headers: int | None
    payload: int


SHORT = tuple(name for name in Row.__struct_fields__ if name not in LONG)
INSERTED = tuple(name for name in SHORT if name not in (*LONG_TEXT, "worker", "lease_until"))
"""What a rewritten row gets from JSON; a job that holds a lease is never rewritten."""


def _outgoing(instead: dict[str, str]) -> str:
    short = [instead.get(name, name) for name in SHORT]
    lengths = [f"length(CAST({name} AS BLOB))" for name in LONG]
    runs = [f"group_concat({name}, '')" for name in LONG]
    return f"json_group_array(json_array({', '.join([*short, *lengths])})), {', '.join(runs)}"


def _plain(instead: dict[str, str]) -> str:
    return ", ".join(instead.get(name, name) for name in (*SHORT, *LONG))


def _value(place: int) -> str:
    return f"json_extract(f.value, '$[{place}]')"


def _slice(place: int) -> str:
    return f"substr(:long, {_value(place)}, {_value(place + 1)})"


def _incoming(table: str, without: str, more: dict[str, str]) -> str:
    places = {name: _value(place) for place, name in enumerate(INSERTED)}
    columns = {name: place for name, place in places.items() if name != without}
    place = len(INSERTED)
    for name in (*LONG_TEXT, *LONG):
        columns[name] = f"CAST({_slice(place)} AS TEXT)" if name in LONG_TEXT else _slice(place)
        place += 2
    columns |= {name: expression.format(**places) for name, expression in more.items()}
    return (
        f"INSERT INTO {table} (ns, {', '.join(columns)}) "
        f"SELECT :ns, {', '.join(columns.values())} FROM json_each(:rows) AS f"
    )


def _incoming_attempts() -> str:
    short = ("job", "token", "run", "worker", "closer", "started", "finished", "outcome")
    columns = {name: _value(place) for place, name in enumerate(short)}
    columns["reason"] = f"CAST({_slice(len(short))} AS TEXT)"
    columns["error"] = f"CAST({_slice(len(short) + 2)} AS TEXT)"
    return (
        f"INSERT INTO holdfast_attempt (ns, {', '.join(columns)}) "
        f"SELECT :ns, {', '.join(columns.values())} FROM json_each(:rows) AS f WHERE true "
        "ON CONFLICT (ns, job, token) DO UPDATE SET outcome = excluded.outcome"
    )


_LIVE = {"finished": "NULL"}
_DONE = {"worker": "NULL", "lease_until": "NULL"}
PARTS = {"{records}": _outgoing(_LIVE), "{records_done}": _outgoing(_DONE)}
PLAIN_PARTS = {"{records}": _plain(_LIVE), "{records_done}": _plain(_DONE)}
STATEMENTS = {
    "insert_live": _incoming("holdfast_job", "finished", {"ready": "{due} <= :now"}),
    "insert_done": _incoming("holdfast_done", "", {}),
    "insert_attempts": _incoming_attempts(),
}

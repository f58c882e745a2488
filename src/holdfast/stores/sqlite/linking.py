"""Which jobs new jobs wait for."""

from collections.abc import Sequence

from holdfast.model.flow import AFTER
from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.records import NewJob
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.columns import CODES
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.transaction import Transaction

_FINISHED = frozenset(CODES[state] for state in FINISHED)
_DLQ, _SUCCESS, _CANCELLED = CODES[State.DLQ], CODES[State.SUCCESS], CODES[State.CANCELLED]
_HELD = ""
_decode_states = reader(list[int | None])
_decode_ids = reader(set[str])


class Links:
    """The links of jobs that are about to be stored, in their order."""

    def __init__(self, tx: Transaction, jobs: Sequence[NewJob]) -> None:
        self._tx = tx
        flows = [job.flow for job in jobs if job.flow is not None]
        others = list(dict.fromkeys(job_id for flow in flows for job_id in flow.after))
        followers = sorted({flow.before for flow in flows if flow.before is not None})
        self._states: dict[str, int | None] = {}
        self._waiting: set[str] = set()
        if others:
            states = _decode_states(tx.row("link_states", ids=as_json(others))[0])
            self._states = dict(zip(others, states, strict=True))
        if followers:
            self._waiting = _decode_ids(tx.row("links_waiting", ids=as_json(followers))[0])
        self._rows: dict[tuple[str, str], int | None] = {}

    def add(self, job: NewJob) -> tuple[str | None, int]:
        """Where the job is parked, if it waits, and how many of those before it are unmet."""
        flow = job.flow
        own: dict[str, int | None] = {}
        if flow is not None:
            own = {each: self._end(each, any_will_do=flow.after_any) for each in flow.after if each != job.id}
            if flow.held:
                own[_HELD] = None
            if flow.before in self._waiting:
                self._rows[flow.before, job.id] = None
        self._rows.update({(job.id, each): end for each, end in own.items()})
        self._states[job.id] = CODES[State.SCHEDULED]
        if None not in own.values():
            return None, sum(end != _SUCCESS for end in own.values())
        self._waiting.add(job.id)
        return AFTER, sum(end is not None and end != _SUCCESS for end in own.values())

    def _end(self, job_id: str, *, any_will_do: bool) -> int | None:
        """How the job has ended, None if it is pending."""
        state = self._states.get(job_id)
        if state is None:
            return _CANCELLED
        is_pending = state not in _FINISHED or (state == _DLQ and not any_will_do)
        return None if is_pending else state

    def write(self) -> None:
        if self._rows:
            self._tx.run("links_add", rows=as_json([(*link, end) for link, end in self._rows.items()]))

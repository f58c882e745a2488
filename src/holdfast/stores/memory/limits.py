"""What limits and sequences hold back. Called with the store's lock held."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import itemgetter

from msgspec.structs import replace

from holdfast.model.flow import SEQUENCE, LimitRecord, Scope, gate
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord
from holdfast.stores.memory.lane import Parked

MOST = 1_000
"""So many jobs are freed from a gate at once, or looked at for a claim beyond those that it takes."""

KEY = gate(Scope.KEY, "")


class Limits:
    """Limits by scope and name, and what they hold back.

    `last` is how far a gate has used up its rate. `parked` has for each gate the lines of jobs that it holds
    back, by queue and task. `open` are the gates that may have room by now; `opens` tells when those will
    whose rate was used up. `behind` has for a gate those whose room nobody can take until it opens.
    """

    def __init__(self) -> None:
        self.of: dict[tuple[Scope, str], LimitRecord] = {}
        self.last: dict[str, int] = {}
        self.parked: dict[str, dict[tuple[str, str], list[Parked]]] = {}
        self.open: set[str] = set()
        self.opens: dict[str, int] = {}
        self.behind: dict[str, set[str]] = {}
        self.is_looked_through = True
        self.sequences = Sequences()

    @property
    def hold_nothing(self) -> bool:
        return not self.of and not self.parked and not self.sequences.order

    def put(self, limit: LimitRecord, now: int) -> None:
        known = self.of.get((limit.scope, limit.name))
        if known is None or known.declared or not limit.declared:
            since = now if known is None or known.paused_since is None else known.paused_since
            self.of[limit.scope, limit.name] = replace(limit, paused_since=since if limit.paused else None)
            self.open.update(self.parked)

    def remove(self, scope: Scope, name: str) -> None:
        if self.of.pop((scope, name), None) is not None:
            self.open.update(self.parked)

    def gates(self, record: JobRecord) -> Iterator[tuple[str, LimitRecord]]:
        """The gates of a job that have a limit."""
        for name in gates_of(record):
            limit = self._limit_of(name, record.task)
            if limit is not None:
                yield name, limit

    def hindrance(self, record: JobRecord, leased: Counter[str], now: int) -> str | None:
        """The gate that does not let the job through now."""
        sequence = None if record.flow is None else record.flow.sequence
        if sequence is not None:
            name = SEQUENCE + sequence
            if leased[name] or self.sequences.next(sequence) != record.id:
                return name
        for name, limit in self.gates(record):
            if self.room(name, limit, leased, now) <= 0:
                return name
        return None

    def paused(self, tasks: frozenset[str]) -> frozenset[str]:
        found = ((task, self.of.get((Scope.TASK, task))) for task in tasks) if self.of else ()
        return frozenset(task for task, limit in found if limit is not None and limit.paused)

    def room(self, name: str, limit: LimitRecord, leased: Counter[str], now: int) -> int:
        """How many more jobs the gate would let through."""
        if limit.paused:
            return 0
        room = MOST if limit.concurrency is None else limit.concurrency - leased[name]
        if limit.interval:
            last = max(self.last.get(name, 0), now)
            by_rate = (now + limit.burst * limit.interval - last) // limit.interval
            if by_rate <= 0:
                self.opens[name] = last - (limit.burst - 1) * limit.interval
            room = min(room, by_rate)
        return room

    def pass_through(self, record: JobRecord, leased: Counter[str], now: int) -> None:
        """Counts a job that is claimed."""
        leased.update(_counted(record))
        for name, limit in self.gates(record):
            if limit.interval:
                self.last[name] = max(self.last.get(name, 0), now) + limit.interval
                self.opens[name] = self.last[name] - (limit.burst - 1) * limit.interval

    def park(self, record: JobRecord, entry: Parked) -> None:
        """Puts a job in line at a gate. What else could hold it back has one less to let through first.

        If that gate is the queue or the task, it holds back all that stand in the same lines elsewhere: what
        else has room keeps it until that gate opens, instead of moving those lines here job by job.
        """
        name = entry[3]
        lines = self.parked.setdefault(name, {})
        heappush(lines.setdefault((record.queue, record.task), []), entry)
        others = {other for other in gates_of(record) if other in self.parked and other != name}
        if name.startswith(KEY):
            self.open |= others
        elif others:
            self.behind.setdefault(name, set()).update(others)

    def note_room(self, record: JobRecord) -> None:
        """The job takes no room at its gates any more, or will not take what it was let go for."""
        if self.parked:
            self.open.update(name for name in gates_of(record) if name in self.parked)

    def next_opening(self) -> int | None:
        """When the next gate opens by time alone; at once if there is more to be looked at."""
        if self.open or not self.is_looked_through:
            return 0
        return min((when for name, when in self.opens.items() if name in self.parked), default=None)

    def take_open(self, stands: Callable[[Parked], bool], leased: Counter[str], now: int) -> list[Parked]:
        """Takes out the first jobs that still stand in each line of the gates that have room."""
        for name in [name for name, when in self.opens.items() if when <= now]:
            del self.opens[name]
            self.open.add(name)
        while held := [name for name in self.open if name in self.behind]:
            self.open.update(*map(self.behind.pop, held))
        taken: list[Parked] = []
        for name in sorted(self.open & self.parked.keys()):
            for place, line in list(self.parked[name].items()):
                room = self._room_at(name, place[1], leased, now)
                first = list(islice(_drained(line, stands), max(room, 0)))
                taken += first
                if not line:
                    del self.parked[name][place]
            if not self.parked[name]:
                del self.parked[name]
        self.open = {name for name in self.open & self.parked.keys() if self._is_free(name)}
        return taken

    def _room_at(self, name: str, task: str, leased: Counter[str], now: int) -> int:
        limit = self._limit_of(name, task)
        return MOST if limit is None else self.room(name, limit, leased, now)

    def _limit_of(self, name: str, task: str) -> LimitRecord | None:
        """The limit of a gate for jobs of a task."""
        scope, _, rest = name.partition(":")
        limit = self.of.get((Scope(scope), rest))
        if limit is None and scope == Scope.KEY:
            limit = self.of.get((Scope.EACH_KEY, task))
        return limit if limit is not None and limit.holds_back else None

    def _is_free(self, name: str) -> bool:
        """Whether nothing limits the gate any more, so that what is left there is freed as well."""
        return any(self._limit_of(name, task) is None for _, task in self.parked[name])


def _drained(line: list[Parked], stands: Callable[[Parked], bool]) -> Iterator[Parked]:
    while line:
        entry = heappop(line)
        if stands(entry):
            yield entry


class Sequences:
    """Jobs that run one after the other: `order` has for each sequence its unfinished jobs, in order."""

    def __init__(self) -> None:
        self.order: dict[str, dict[str, int]] = {}
        self.halted: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._last = 0

    def add(self, sequence: str, job_id: str) -> None:
        """Puts a job behind the others, or one that is live again where it was."""
        order = self.order.setdefault(sequence, {})
        is_new = job_id not in self._places
        if is_new:
            self._last += 1
            self._places[job_id] = self._last
        order[job_id] = self._places[job_id]
        if not is_new:
            self.order[sequence] = dict(sorted(order.items(), key=itemgetter(1)))

    def next(self, sequence: str) -> str | None:
        """The one job that may be claimed."""
        return self.halted.get(sequence) or next(iter(self.order.get(sequence, ())), None)

    def end(self, record: JobRecord) -> None:
        """A job is finished."""
        flow = record.flow
        if flow is None or flow.sequence is None:
            return
        sequence = flow.sequence
        order = self.order.get(sequence, {})
        order.pop(record.id, None)
        if not order:
            self.order.pop(sequence, None)
        if flow.halts and record.state in (State.DLQ, State.FAILED):
            self.halted[sequence] = record.id
        elif self.halted.get(sequence) == record.id:
            del self.halted[sequence]

    def forget(self, record: JobRecord) -> None:
        """A job is removed: it halts nothing any more."""
        self.end(record)
        sequence = None if record.flow is None else record.flow.sequence
        if sequence is not None and self.halted.get(sequence) == record.id:
            del self.halted[sequence]
        self._places.pop(record.id, None)


def gates_of(record: JobRecord) -> tuple[str, ...]:
    """All gates of a job, limited or not."""
    names = gate(Scope.QUEUE, record.queue), gate(Scope.TASK, record.task)
    key = None if record.flow is None else record.flow.limit_key
    return names if key is None else (*names, gate(Scope.KEY, key))


def count_gates(records: Iterable[JobRecord]) -> Counter[str]:
    """How many of these jobs belong to each gate, and to each sequence."""
    return Counter(name for record in records for name in _counted(record))


def _counted(record: JobRecord) -> tuple[str, ...]:
    sequence = None if record.flow is None else record.flow.sequence
    return gates_of(record) if sequence is None else (*gates_of(record), SEQUENCE + sequence)

"""The case: all records and the dump of one campaign, sorted by what they speak of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast.torture.dump import Dump, Job
from holdfast.torture.dump import read as read_dump
from holdfast.torture.history import (
    Call,
    Calm,
    Consumed,
    Done,
    Effect,
    End,
    Failed,
    Fault,
    Fenced,
    Freed,
    Granted,
    Led,
    Line,
    Lost,
    Start,
    Unknown,
    Verdict,
)
from holdfast.torture.history import read as read_history

Answer = Done | Failed | Unknown | Granted
Op = tuple[str, int]
Lease = tuple[str, int]
"""A job and a token."""

TERMINAL = frozenset({"success", "failed", "dlq", "cancelled"})
MAKING = frozenset({"enqueue", "enqueue_many"})


@dataclass(slots=True)
class Asked:
    """A call and its answer; without one its outcome is as unknown as if it had been lost."""

    call: Call
    answer: Answer | None

    @property
    def is_done(self) -> bool:
        return isinstance(self.answer, Done)

    @property
    def may_be_done(self) -> bool:
        return not isinstance(self.answer, Failed)

    @property
    def verb(self) -> str:
        return self.call.does or self.call.verb if self.call.verb == "cli" else self.call.verb

    @property
    def evidence(self) -> tuple[Line, ...]:
        return (self.call,) if self.answer is None else (self.call, self.answer)

    def ids(self) -> tuple[str, ...]:
        """The jobs that it was answered with, else those that it named."""
        if isinstance(self.answer, Done) and (told := _both(self.answer.job, self.answer.jobs)):
            return told
        return _both(self.call.job, self.call.jobs)

    def keys(self) -> tuple[str, ...]:
        return _both(self.call.key, self.call.keys)


def _both(one: str | None, many: tuple[str, ...]) -> tuple[str, ...]:
    return many if one is None else (one, *many)


class Case:
    """What is known, by subject; lists are in the order of time, which is that of the given records."""

    def __init__(self, records: list[Line], dump: Dump, out: Path | None = None) -> None:
        self.dump = dump
        self.out = out
        self.records = len(records)
        self.begun = records[0].at if records else 0
        self.ended = records[-1].at if records else 0
        self.jobs: dict[str, Job] = {job.id: job for job in dump.jobs}
        self.calls: list[Asked] = []
        self.starts: defaultdict[str, list[Start]] = defaultdict(list)
        self.effects: list[Effect] = []
        self.ends: dict[Lease, End] = {}
        self.verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
        self.granted: defaultdict[str, list[Granted]] = defaultdict(list)
        self.fenced: defaultdict[str, list[Fenced]] = defaultdict(list)
        self.freed: dict[Lease, Freed] = {}
        self.lost: dict[Lease, Lost] = {}
        self.consumed: defaultdict[str, list[Consumed]] = defaultdict(list)
        self.led: list[Led] = []
        self.faults: list[Fault] = []
        self.calm: Calm | None = None
        self._unanswered: dict[Op, Asked] = {}
        for record in records:
            self._file(record)

    def asked(self, *verbs: str) -> Iterator[Asked]:
        """The calls of these verbs, by whatever way they were made."""
        return (asked for asked in self.calls if asked.verb in verbs)

    @cached_property
    def perhaps_deleted(self) -> frozenset[str]:
        return frozenset(
            job_id for asked in self.asked("delete") if asked.may_be_done for job_id in asked.ids()
        )

    @cached_property
    def replays(self) -> Counter[str]:
        """How often a job may have been replayed, at most."""
        return Counter(
            job_id for asked in self.asked("replay") if asked.may_be_done for job_id in asked.ids()
        )

    def _file(self, record: Line) -> None:
        match record:
            case Start() | Effect() | End() | Verdict():
                self._file_attempt(record)
            case Call():
                asked = self._unanswered[record.who, record.op] = Asked(record, None)
                self.calls.append(asked)
            case Done() | Failed() | Unknown():
                self._answer(record)
            case Granted() | Fenced() | Freed() | Lost():
                self._file_lock(record)
            case Consumed():
                self.consumed[record.group].append(record)
            case Led():
                self.led.append(record)
            case Fault():
                self.faults.append(record)
            case Calm():
                self.calm = record

    def _file_attempt(self, record: Start | Effect | End | Verdict) -> None:
        match record:
            case Start():
                self.starts[record.job].append(record)
            case Effect():
                self.effects.append(record)
            case End():
                self.ends[record.job, record.token] = record
            case Verdict():
                self.verdicts[record.job].append(record)

    def _file_lock(self, record: Granted | Fenced | Freed | Lost) -> None:
        match record:
            case Granted():
                self._answer(record)
                self.granted[record.lock].append(record)
            case Fenced():
                self.fenced[record.lock].append(record)
            case Freed():
                self.freed[record.lock, record.token] = record
            case Lost():
                self.lost[record.lock, record.token] = record

    def _answer(self, answer: Answer) -> None:
        asked = self._unanswered.pop((answer.who, answer.op), None)
        if asked is not None:
            asked.answer = answer


def kind_of(fault: Fault) -> str:
    """The name of a fault as people write it."""
    return fault.name.replace("_", " ")


def read_case(out: Path) -> Case:
    return Case(read_history(out), read_dump(out), out)

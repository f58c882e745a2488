"""What each notice adds to which metric. Not safe to use from two threads at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.engine.leader import LEADER
from holdfast.engine.notices import Notice
from holdfast.model.lifecycle import Ending, State
from holdfast.model.locking import is_internal
from holdfast.model.outcome import Stop
from holdfast.model.overview import Counts, QueueInfo
from holdfast.model.records import JobRecord, Move, Verdict
from holdfast.model.timing import SECOND
from holdfast.store.circuit import CircuitReport, CircuitState
from holdfast.telemetry import catalogue as the
from holdfast.telemetry.instruments import Definition, Family, Histogram, Labels, Numbers

Facts = Mapping[str, Any]
Observer = Callable[[Definition, float, Labels], None]


class Tally:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._numbers = {each: Numbers(each) for each in the.CATALOGUE if each.kind != "histogram"}
        self._histograms = {each: Histogram(each) for each in the.CATALOGUE if each.kind == "histogram"}
        self._terms: dict[str, int] = {}
        self._workers: set[str] = set()
        self.forward: Observer | None = None
        """Told of each value that a histogram observes."""
        self.hearers: Mapping[str, Callable[[Facts], None]] = {
            "claimed": self._claimed,
            "settled": self._settled,
            "reclaimed": self._reclaimed,
            "reclaim_refused": lambda facts: self._count(the.CLAIM_CONFLICTS, "reclaim"),
            "lease_lost": self._lease_lost,
            "stuck": lambda facts: self._count(the.STUCK, facts["record"].task),
            "version_conflict": lambda facts: self._count(the.VERSION_CONFLICTS, facts["of"]),
            "heartbeat_failed": lambda facts: self._count(the.HEARTBEATS_FAILED),
            "tick_failed": lambda facts: self._count(the.STORE_FAILURES, "tick"),
            "start_failed": lambda facts: self._count(the.STORE_FAILURES, "start"),
            "worker_started": self._worker_started,
            "worker_stopped": self._worker_stopped,
            "lock_acquired": self._lock_acquired,
            "lock_timeout": self._lock_timeout,
            "lock_released": self._lock_released,
            "lock_lost": self._lock_lost,
            "leader_elected": self._leader_elected,
            "leader_lost": self._leader_lost,
            "schedule_fired": self._schedule_fired,
            "schedule_missed": lambda facts: self._count(the.SCHEDULES_MISSED, by=facts["count"]),
            "schedule_skipped": lambda facts: self._count(the.SCHEDULES_SKIPPED, by=facts["count"]),
            "events_appended": lambda facts: self._count(
                the.EVENTS_APPENDED, facts["topic"], by=facts["count"]
            ),
            "event_consumed": self._event_consumed,
            "event_failed": lambda facts: self._count(the.EVENTS_FAILED, *_consumer(facts)),
            "event_parked": lambda facts: self._count(the.EVENTS_PARKED, *_consumer(facts)),
            "events_relayed": lambda facts: self._count(
                the.EVENTS_RELAYED, facts["topic"], by=facts["count"]
            ),
            "consumer_stopped": lambda facts: self._numbers[the.CONSUMER_LAG].forget(_consumer(facts)),
        }
        self._show_held()

    def hear(self, notice: Notice) -> None:
        hearer = self.hearers.get(notice.kind)
        if hearer is not None:
            hearer(notice.facts)

    def measured(self, told: Sequence[QueueInfo] | None) -> None:
        """Takes over what the store told; None if it did not answer, and old sizes are not shown as new."""
        queues = () if told is None else told

        def show(gauge: Definition, size: Callable[[Counts], int]) -> None:
            self._numbers[gauge].replace(((queue.name,), size(queue.counts)) for queue in queues)

        show(the.QUEUE_DEPTH, lambda counts: counts.queued)
        show(the.QUEUE_SCHEDULED, lambda counts: counts.scheduled)
        show(the.QUEUE_IN_PROGRESS, lambda counts: counts.in_progress)
        show(the.DLQ_SIZE, lambda counts: counts.by_state[State.DLQ])
        self._numbers[the.QUEUE_OLDEST].replace(((queue.name,), queue.oldest or 0) for queue in queues)
        for queue in queues:
            self._observe(the.QUEUE_AGE, queue.oldest or 0, queue.name)
        self._numbers[the.STORE_UP].set(0 if told is None else 1)

    def guarded(self, reports: Mapping[str, CircuitReport]) -> None:
        """Takes over what the circuits of the store report, by partition."""

        def show(definition: Definition, number: Callable[[CircuitReport], int]) -> None:
            self._numbers[definition].replace(((name,), number(report)) for name, report in reports.items())

        show(the.CIRCUIT_OPENED, lambda report: report.opened)
        show(the.CIRCUIT_CLOSED, lambda report: report.closed)
        show(the.STORE_PROBES, lambda report: report.probes)
        show(the.STORE_FAULTS, lambda report: report.faults)
        show(the.STORE_RETRIES, lambda report: report.retries)
        show(the.STORE_REFUSALS, lambda report: report.refused)
        self._numbers[the.CIRCUIT_STATE].replace(
            ((name, state), report.state is state)
            for name, report in reports.items()
            for state in CircuitState
        )

    def families(self) -> list[Family]:
        """All metrics, in the order of the catalogue."""
        instruments: dict[Definition, Numbers | Histogram] = {**self._numbers, **self._histograms}
        return [instruments[definition].family() for definition in the.CATALOGUE]

    def _count(self, definition: Definition, *labels: str, by: float = 1) -> None:
        self._numbers[definition].add(labels, by)

    def _observe(self, definition: Definition, value: float, *labels: str) -> None:
        value = max(0.0, value)
        self._histograms[definition].observe(value, labels)
        if self.forward is not None:
            self.forward(definition, value, labels)

    def _claimed(self, facts: Facts) -> None:
        record: JobRecord = facts["record"]
        self._count(the.LEASES_ACQUIRED, record.queue)
        # A token is the store's clock at the claim, and at most a little more.
        self._observe(the.JOB_LATENESS, (record.token - record.due) / SECOND, record.queue)

    def _settled(self, facts: Facts) -> None:
        record: JobRecord = facts["record"]
        move: Move | None = facts["move"]
        if move is None:
            self._count(the.ATTEMPTS, record.task, Ending.SUCCESS)
            if record.started is not None and record.finished is not None:
                self._observe(the.JOB_RUN, (record.finished - record.started) / SECOND, record.task)
            return
        if move.elapsed is not None:
            self._observe(the.JOB_RUN, move.elapsed / SECOND, record.task)
        if facts["verdict"] is not Verdict.ACCEPTED:
            self._count(the.ATTEMPTS, record.task, "refused")
            self._count(the.CLAIM_CONFLICTS, "report")
            return
        assert move.outcome is not None, "only a move that ends the attempt is settled"
        self._count(the.ATTEMPTS, record.task, move.outcome)
        if move.outcome is Ending.RETRY:
            self._count(the.RETRIES, record.task)
        self._moved_to(move.path[-1], record)
        for event in move.events:
            self._count(the.EVENTS_APPENDED, event.topic)

    def _reclaimed(self, facts: Facts) -> None:
        record: JobRecord = facts["record"]
        self._count(the.LEASES_RECOVERED, record.task)
        self._moved_to(facts["state"], record)

    def _moved_to(self, state: State, record: JobRecord) -> None:
        if state is State.DLQ:
            self._count(the.DEAD_LETTERED, record.task)

    def _lease_lost(self, facts: Facts) -> None:
        why: Stop = facts["why"]
        self._count(the.LEASES_LOST, why.name.lower())

    def _worker_started(self, facts: Facts) -> None:
        self._workers.add(facts["worker"])
        self._show_held()

    def _worker_stopped(self, facts: Facts) -> None:
        self._workers.discard(facts["worker"])
        self._show_held()

    def _lock_acquired(self, facts: Facts) -> None:
        if not _is_ours(facts):
            self._count(the.LOCK_GRANTS)
            self._observe(the.LOCK_WAIT, facts["waited"])

    def _lock_timeout(self, facts: Facts) -> None:
        if not _is_ours(facts):
            self._count(the.LOCK_TIMEOUTS)
            self._observe(the.LOCK_WAIT, facts["waited"])

    def _lock_released(self, facts: Facts) -> None:
        if _is_ours(facts):
            self._term_over(facts)
        else:
            self._observe(the.LOCK_HELD, facts["held"])

    def _lock_lost(self, facts: Facts) -> None:
        if _is_ours(facts):
            self._term_over(facts)
        else:
            self._count(the.LOCK_LOSSES)

    def _leader_elected(self, facts: Facts) -> None:
        self._count(the.TERMS)
        self._terms[facts["worker"]] = facts["term"]
        self._show_held()

    def _leader_lost(self, facts: Facts) -> None:
        self._count(the.TERMS_LOST)
        self._terms.pop(facts["worker"], None)
        self._show_held()

    def _term_over(self, facts: Facts) -> None:
        """A leader that resigns says so only by giving back its lock."""
        if facts["lock"] == LEADER:
            self._terms = {who: term for who, term in self._terms.items() if term != facts["token"]}
            self._show_held()

    def _show_held(self) -> None:
        self._numbers[the.LEADING].set(1 if self._terms else 0)
        self._numbers[the.WORKERS].set(len(self._workers))

    def _schedule_fired(self, facts: Facts) -> None:
        self._count(the.SCHEDULES_FIRED, by=facts["jobs"] + facts["events"])
        self._observe(the.SCHEDULE_LATENESS, facts["late"])

    def _event_consumed(self, facts: Facts) -> None:
        self._count(the.EVENTS_CONSUMED, *_consumer(facts), by=facts["count"])
        self._observe(the.EVENT_HANDLING, facts["seconds"], facts["group"])
        self._numbers[the.CONSUMER_LAG].set(facts["lag"], _consumer(facts))


def _consumer(facts: Facts) -> tuple[str, str]:
    return facts["group"], facts["topic"]


def _is_ours(facts: Facts) -> bool:
    return is_internal(facts["lock"])

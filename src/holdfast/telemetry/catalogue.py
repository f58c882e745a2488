"""Every metric: its name, what it means, and by what it is told apart.

Labels are names that code declares or operators choose: tasks, queues, topics, consumer groups, partitions,
and words of a fixed list. Never what data makes: jobs, keys, locks, schedules, aggregates, errors, workers.
"""

from __future__ import annotations

from holdfast.telemetry.instruments import Definition


def _counter(name: str, text: str, *labels: str) -> Definition:
    return Definition(f"holdfast_{name}_total", "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Definition:
    return Definition(f"holdfast_{name}", "gauge", text, labels)


def _histogram(name: str, text: str, *labels: str) -> Definition:
    return Definition(f"holdfast_{name}_seconds", "histogram", text, labels)


LEASES_ACQUIRED = _counter("leases_acquired", "Jobs that workers of this process claimed.", "queue")
LEASES_LOST = _counter("leases_lost", "Attempts that were given up because their lease was not kept.", "why")
LEASES_RECOVERED = _counter(
    "leases_recovered", "Expired leases, of any worker, that this process took back.", "task"
)
CLAIM_CONFLICTS = _counter(
    "claim_conflicts", "Reports and reclaims that were refused because the job was another's by then.", "what"
)
VERSION_CONFLICTS = _counter(
    "version_conflicts", "Edits that were refused because of a change in between.", "of"
)
JOB_LATENESS = _histogram(
    "job_lateness", "From when a job was due to when it was claimed, by the store's clock.", "queue"
)
JOB_RUN = _histogram("job_run", "How long attempts ran.", "task")
ATTEMPTS = _counter("attempts", "Attempts that ended in this process.", "task", "outcome")
RETRIES = _counter("retries", "Failed attempts after which the job will be tried again.", "task")
DEAD_LETTERED = _counter("dead_lettered", "Jobs that this process put into the dead-letter queue.", "task")
STUCK = _counter("attempts_stuck", "Attempts that went on after they were told to stop.", "task")

QUEUE_DEPTH = _gauge("queue_depth", "Jobs that are due and wait for a worker.", "queue")
QUEUE_SCHEDULED = _gauge("queue_scheduled", "Jobs that are due later.", "queue")
QUEUE_IN_PROGRESS = _gauge("queue_in_progress", "Jobs that are claimed or running.", "queue")
QUEUE_OLDEST = _gauge(
    "queue_oldest_seconds", "How long the job at the head of a queue has waited; 0 if none does.", "queue"
)
QUEUE_AGE = _histogram("queue_age", "The same, each time that the sizes of queues were asked for.", "queue")
DLQ_SIZE = _gauge("dlq_size", "Jobs in the dead-letter queue.", "queue")
STORE_UP = _gauge(
    "store_up", "1 if the store answered when it was last asked for the sizes of queues, else 0."
)

LOCK_WAIT = _histogram("lock_wait", "How long locks were waited for, granted or not.")
LOCK_HELD = _histogram("lock_held", "How long locks were held that were given back.")
LOCK_GRANTS = _counter("lock_grants", "Locks granted.")
LOCK_TIMEOUTS = _counter("lock_timeouts", "Locks that were not to be had in time.")
LOCK_LOSSES = _counter("lock_losses", "Locks that were lost while they were held.")

LEADING = _gauge("leading", "1 while a worker of this process is the leader, else 0.")
TERMS = _counter("leader_terms", "Terms as leader that began in this process.")
TERMS_LOST = _counter("leader_terms_lost", "Terms that ended because the lease was lost.")
SCHEDULES_FIRED = _counter("schedules_fired", "Firings of schedules.")
SCHEDULES_MISSED = _counter("schedules_missed", "Due times that the misfire policy dropped.")
SCHEDULES_SKIPPED = _counter("schedules_skipped", "Due times that the overlap policy dropped.")
SCHEDULE_LATENESS = _histogram("schedule_lateness", "From when a schedule was due to when it fired.")

EVENTS_APPENDED = _counter("events_appended", "Events stored.", "topic")
EVENTS_CONSUMED = _counter("events_consumed", "Events that consumers are done with.", "group", "topic")
EVENTS_FAILED = _counter(
    "events_failed", "Failed attempts of consumers to handle an event.", "group", "topic"
)
EVENTS_PARKED = _counter("events_parked", "Events whose attempts are used up.", "group", "topic")
EVENTS_RELAYED = _counter("events_relayed", "Events handed on to another system.", "topic")
EVENT_HANDLING = _histogram("event_handling", "How long an event took, or a batch that was relayed.", "group")
CONSUMER_LAG = _gauge("consumer_lag_events", "Events that are stored and not consumed yet.", "group", "topic")

WORKERS = _gauge("workers", "Workers that run in this process.")
HEARTBEATS_FAILED = _counter("heartbeats_failed", "Heartbeats that the store did not answer.")
STORE_FAILURES = _counter("store_failures", "Calls of workers that the store did not answer.", "call")
CIRCUIT_STATE = _gauge(
    "store_circuit_state", "1 for the state of the circuit to the store, 0 for others.", "partition", "state"
)
CIRCUIT_OPENED = _counter("store_circuit_opened", "Long outages of the store that began.", "partition")
CIRCUIT_CLOSED = _counter("store_circuit_closed", "Long outages of the store that ended.", "partition")
STORE_PROBES = _counter("store_probes", "Tries that an open circuit let through.", "partition")
STORE_FAULTS = _counter(
    "store_faults", "Tries that did not reach the store, or lost their answer.", "partition"
)
STORE_RETRIES = _counter("store_retries", "Tries that were made again after such a fault.", "partition")
STORE_REFUSALS = _counter(
    "store_refusals", "Calls that were not sent, or not again, because the circuit was open.", "partition"
)

CATALOGUE = tuple(value for value in vars().copy().values() if isinstance(value, Definition))

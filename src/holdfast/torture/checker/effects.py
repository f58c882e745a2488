"""Effects that commit with the completion of their job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.violation import Violation


def ledger_matches_completions(case: Case) -> Iterator[Violation]:
    """I7: a completed job has its one ledger row, under the token that completed it; no other has any."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for entry in case.dump.ledger:
        rows[entry.job].append(entry.token)
    tasks = frozenset(case.dump.ledger_tasks)
    for job in case.dump.jobs:
        written = rows.pop(job.id, [])
        completed = [attempt.token for attempt in job.attempts if attempt.outcome == "success"]
        expected = completed if job.task in tasks else []
        if sorted(written) != sorted(expected):
            said = (
                f"job {job.id} of {job.task} is {job.state} with {len(expected)} ledger rows due,"
                f" and has {len(written)}: tokens {written}, completed by {completed}"
            )
            yield Violation(said, tuple(case.verdicts.get(job.id, ())))
    deleted = case.perhaps_deleted
    for job_id, tokens in rows.items():
        if job_id not in deleted:
            yield Violation(f"the ledger has rows of job {job_id}, which is not stored: tokens {tokens}")

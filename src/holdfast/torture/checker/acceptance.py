"""What was accepted is there, once; what was refused is not; and success was not claimed too early."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from holdfast.torture.checker.case import MAKING, Asked, Case
from holdfast.torture.checker.violation import Violation


def accepted_jobs_are_there(case: Case) -> Iterator[Violation]:
    """I1: what was accepted is stored once, what was refused is not; that it ends is for I12."""
    yield from _stored_twice(case)
    yield from _lost(case)
    yield from _made_by_nobody(case)


def _stored_twice(case: Case) -> Iterator[Violation]:
    for job, count in Counter(job.id for job in case.dump.jobs).items():
        if count > 1:
            yield Violation(f"job {job} is stored {count} times")


def _lost(case: Case) -> Iterator[Violation]:
    seen: set[str] = set(case.perhaps_deleted)
    for asked in case.asked(*MAKING):
        if not asked.is_done:
            continue
        for job_id in asked.ids():
            if job_id not in seen and job_id not in case.jobs:
                yield Violation(f"job {job_id} was accepted and is lost", asked.evidence)
            seen.add(job_id)


def _made_by_nobody(case: Case) -> Iterator[Violation]:
    """Every stored job was asked for by a call that may have made it, by a schedule, or by another job."""
    ids: set[str] = set()
    keys: set[str] = set()
    refused: dict[str, Asked] = {}
    for asked in case.asked(*MAKING):
        if asked.may_be_done:
            ids.update(asked.ids())
            keys.update(asked.keys())
        else:
            refused.update((name, asked) for name in (*asked.ids(), *asked.keys()))
    for job in case.dump.jobs:
        if job.id in ids or job.key in keys or job.firing is not None:
            continue
        if job.parent is not None:
            parent = case.jobs.get(job.parent)
            if parent is not None and parent.state != "success":
                yield Violation(f"job {job.id} was made by {parent.id}, which never succeeded")
            continue
        culprit = refused.get(job.id) or refused.get(job.key or "")
        if culprit is not None:
            yield Violation(f"job {job.id} is stored although its enqueue was refused", culprit.evidence)
        else:
            yield Violation(f"job {job.id} of {job.task} is stored, and nobody asked for it")


def one_job_per_key(case: Case) -> Iterator[Violation]:
    """I8: all who enqueue with a key get the same job, and one is stored."""
    deleted = case.perhaps_deleted
    ids: defaultdict[str, dict[str, Asked | None]] = defaultdict(dict)
    for job in case.dump.jobs:
        if job.key is not None:
            ids[job.key][job.id] = None
    for asked in case.asked("enqueue"):
        if asked.is_done and asked.call.key is not None:
            ids[asked.call.key].update((job_id, asked) for job_id in asked.ids())
    for key, jobs in ids.items():
        if len(jobs.keys() - deleted) > 1:
            told = [record for asked in jobs.values() if asked for record in asked.evidence]
            yield Violation(f"key {key} has {len(jobs)} jobs: {', '.join(sorted(jobs))}", tuple(told))


def told_success_is_committed(case: Case) -> Iterator[Violation]:
    """I14: what a call or the command line reported as done stands in the store."""
    deleted = case.perhaps_deleted
    for asked in case.asked("cancel", "delete", "edit", "enqueue", "enqueue_many", "replay"):
        if asked.is_done:
            yield from _uncommitted(case, asked, deleted)


def _uncommitted(case: Case, asked: Asked, deleted: frozenset[str]) -> Iterator[Violation]:
    for job_id in asked.ids():
        job = case.jobs.get(job_id)
        if asked.verb == "delete":
            if job is not None:
                yield Violation(f"job {job_id} was deleted, it was said, and is there", asked.evidence)
        elif job is None:
            if job_id not in deleted and (asked.verb not in MAKING or asked.call.verb == "cli"):
                said = f"{asked.verb} of job {job_id} was reported as done, and there is no such job"
                yield Violation(said, asked.evidence)
        elif asked.verb == "cancel" and _verdict(asked) == "cancelled" and job.state != "cancelled":
            yield Violation(f"job {job_id} was cancelled, it was said, and is {job.state}", asked.evidence)
        elif job.version < (_version(asked) or 0):
            said = f"job {job_id} had version {_version(asked)} after {asked.verb}, and has {job.version} now"
            yield Violation(said, asked.evidence)


def _verdict(asked: Asked) -> str | None:
    return getattr(asked.answer, "verdict", None)


def _version(asked: Asked) -> int | None:
    return getattr(asked.answer, "version", None)

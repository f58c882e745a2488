"""Attempts, their tokens, and what the store accepted from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.clock import StoreClock
from holdfast.torture.checker.violation import Violation
from holdfast.torture.dump import Attempt, Job
from holdfast.torture.history import Start, Verdict

FINAL = frozenset({"success", "failed", "cancelled"})
AGAIN = frozenset({"retry", "lost", "released", "superseded"})
TAKEN = frozenset({"lost", "superseded"})
ROUNDING = 1_000
"""Start times are reckoned back from a duration that a worker measured: they may be off by this much."""


def one_completion(case: Case) -> Iterator[Violation]:
    """I2: at most one accepted completion for each generation of a job."""
    replays = case.replays
    for job_id in dict.fromkeys((*case.verdicts, *case.jobs)):
        job = case.jobs.get(job_id)
        verdicts = [verdict for verdict in case.verdicts.get(job_id, ()) if verdict.accepted]
        yield from _ended_two_ways(job_id, verdicts)
        final: dict[int, str] = {
            verdict.token: verdict.outcome for verdict in verdicts if verdict.outcome in FINAL
        }
        if job is not None:
            final |= {each.token: each.outcome for each in job.attempts if each.outcome in FINAL}
            yield from _contradicts_its_state(job)
        successes = [token for token, outcome in final.items() if outcome == "success"]
        most = 1 + replays[job_id]
        if len(successes) > 1 or len(final) > most:
            told = ", ".join(f"{outcome} by token {token}" for token, outcome in sorted(final.items()))
            yield Violation(f"job {job_id} was completed {len(final)} times: {told}", tuple(verdicts))


def _ended_two_ways(job_id: str, verdicts: list[Verdict]) -> Iterator[Violation]:
    by_token: defaultdict[int, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_token[verdict.token].append(verdict)
    for token, told in by_token.items():
        outcomes = {verdict.outcome for verdict in told}
        if len(outcomes) > 1:
            ways = " and as ".join(sorted(outcomes))
            said = f"the attempt of job {job_id} under token {token} ended as {ways}"
            yield Violation(said, tuple(told))


def _contradicts_its_state(job: Job) -> Iterator[Violation]:
    successes = sum(attempt.outcome == "success" for attempt in job.attempts)
    if successes != (job.state == "success"):
        yield Violation(f"job {job.id} is {job.state}, and {successes} of its attempts succeeded")


def tokens_increase(case: Case) -> Iterator[Violation]:
    """I3: every claim of a job has a token of its own, greater than all before it."""
    for job_id in dict.fromkeys((*case.starts, *case.jobs)):
        tokens: dict[int, int] = {}
        starts = case.starts.get(job_id, [])
        job = case.jobs.get(job_id)
        issued = [(start.run, start.token) for start in starts]
        if job is not None:
            issued += [(attempt.run, attempt.token) for attempt in job.attempts]
            if job.run:
                issued.append((job.run, job.token))
        for run, token in issued:
            if tokens.setdefault(run, token) != token:
                said = f"run {run} of job {job_id} has two tokens: {tokens[run]} and {token}"
                yield Violation(said, tuple(starts))
        for (run, token), (later, next_token) in pairwise(sorted(tokens.items())):
            if next_token <= token:
                said = f"run {later} of job {job_id} has token {next_token}, run {run} had {token} before it"
                yield Violation(said, tuple(starts))
        yield from _started_twice(job_id, starts)


def _started_twice(job_id: str, starts: list[Start]) -> Iterator[Violation]:
    seen: dict[int, Start] = {}
    for start in starts:
        if (before := seen.setdefault(start.token, start)) is not start:
            yield Violation(f"job {job_id} was started twice under token {start.token}", (before, start))


def accepted_writes_are_current(case: Case) -> Iterator[Violation]:
    """I4: what was accepted bore the newest token at that time, and stands as it was accepted."""
    for job_id, verdicts in case.verdicts.items():
        job = case.jobs.get(job_id)
        rows = {} if job is None else {attempt.token: attempt for attempt in job.attempts}
        for verdict in verdicts:
            if verdict.accepted:
                yield from _accepted_stale(case, verdict)
            if job is not None:
                yield from _recorded_otherwise(verdict, rows.get(verdict.token))


def _accepted_stale(case: Case, verdict: Verdict) -> Iterator[Violation]:
    """Its handler ended, and only then reported, after a newer attempt had already begun."""
    end = case.ends.get((verdict.job, verdict.token))
    if end is None or verdict.outcome in TAKEN:
        return
    for start in case.starts.get(verdict.job, ()):
        if start.token > verdict.token and start.at < end.at:
            said = (
                f"the store accepted {verdict.outcome} of job {verdict.job} under token {verdict.token},"
                f" although token {start.token} had been issued"
            )
            yield Violation(said, (start, end, verdict))
            return


def _recorded_otherwise(verdict: Verdict, row: Attempt | None) -> Iterator[Violation]:
    about = f"{verdict.outcome} of job {verdict.job} under token {verdict.token}"
    stands = row is not None and (
        row.outcome == verdict.outcome or (verdict.outcome in TAKEN and row.outcome in TAKEN)
    )
    if verdict.accepted and row is None:
        yield Violation(f"the store accepted {about}, and knows of no such attempt", (verdict,))
    elif verdict.accepted and row is not None and not stands:
        yield Violation(f"the store accepted {about}, and has it as {row.outcome}", (verdict, _row(row)))
    elif not verdict.accepted and verdict.outcome in FINAL and stands and row is not None:
        yield Violation(f"the store refused {about}, and has it all the same", (verdict, _row(row)))


def extra_attempts_have_causes(case: Case) -> Iterator[Violation]:
    """I5: every attempt is recorded with its end, only what did not complete is followed, limits are kept."""
    limits = case.dump.limits
    replays = case.replays
    for job in case.dump.jobs:
        runs = [attempt.run for attempt in job.attempts]
        if runs != list(range(1, job.run + 1)) and job.state not in {"claimed", "running"}:
            yield Violation(f"job {job.id} was claimed {job.run} times; history has the runs {runs}")
        yield from _unrecorded(job, case.starts.get(job.id, []))
        failed = 0
        for attempt in job.attempts[:-1]:
            failed += attempt.outcome == "failed"
            if attempt.outcome not in AGAIN and not (
                attempt.outcome == "failed" and failed <= replays[job.id]
            ):
                said = f"job {job.id} was run again after run {attempt.run} had ended as {attempt.outcome}"
                yield Violation(said, tuple(map(_row, job.attempts)))
        if job.failures > limits.attempts:
            yield Violation(f"job {job.id} failed {job.failures} times; {limits.attempts} are allowed")
        if job.lost > limits.losses:
            yield Violation(f"job {job.id} was lost {job.lost} times; {limits.losses} are allowed")


def _unrecorded(job: Job, starts: list[Start]) -> Iterator[Violation]:
    recorded = {attempt.token for attempt in job.attempts} | {job.token}
    for start in starts:
        if start.token not in recorded:
            said = f"job {job.id} was started under token {start.token}; history knows no such attempt"
            yield Violation(said, (start,))


def leases_never_overlap(case: Case) -> Iterator[Violation]:
    """I6: two leases of a job never overlap in the store's time, and none is taken before its end."""
    lease = case.dump.limits.lease
    for job in case.dump.jobs:
        for before, after in pairwise(job.attempts):
            begun = after.finished if after.started is None else after.started
            if begun + ROUNDING < before.finished:
                said = f"run {after.run} of job {job.id} began before run {before.run} had ended"
                yield Violation(said, (_row(before), _row(after)))
        for attempt in job.attempts:
            if attempt.outcome in TAKEN and attempt.finished < attempt.token + lease:
                left = attempt.token + lease - attempt.finished
                said = f"run {attempt.run} of job {job.id} was taken {left} µs before its lease could end"
                yield Violation(said, (_row(attempt),))
    yield from _stamped_ahead(case)


def _stamped_ahead(case: Case) -> Iterator[Violation]:
    """Only the store's clock stamps: nothing ends later than its worker was told of it."""
    clock = StoreClock(case)
    for job_id, verdicts in case.verdicts.items():
        job = case.jobs.get(job_id)
        for attempt in () if job is None else job.attempts:
            told = next((each for each in verdicts if each.token == attempt.token and each.accepted), None)
            if told is not None and (ahead := clock.ahead(attempt.finished, told.at)) > 0:
                said = (
                    f"the end of run {attempt.run} of job {job_id} was stamped {ahead} µs ahead of its time"
                )
                yield Violation(said, (_row(attempt), told))


def _row(attempt: Attempt) -> str:
    return (
        f"dump: run {attempt.run}, token {attempt.token}, worker {attempt.worker}, started {attempt.started},"
        f" finished {attempt.finished}, {attempt.outcome}"
    )

"""Attempts whose tokens, leases or ends are wrong."""

from __future__ import annotations

from holdfast.torture.history import End, Start, Verdict
from tests.torture.breaches.breach import Breach, ended, of
from tests.torture.world import LEASE, STORE_AHEAD, World


def complete_twice(world: World) -> None:
    job, attempt = ended(world, "success")
    world.write(
        "worker-9-1", (job.finished or 0) - STORE_AHEAD, _accepted(job.id, attempt.token + 1, "success")
    )


def complete_what_is_cancelled(world: World) -> None:
    job, attempt = ended(world, "cancelled")
    world.write(
        "worker-9-1", (job.finished or 0) - STORE_AHEAD, _accepted(job.id, attempt.token + 1, "success")
    )


def end_one_attempt_two_ways(world: World) -> None:
    job, attempt = ended(world, "success")
    world.write("worker-9-1", (job.finished or 0) - STORE_AHEAD, _accepted(job.id, attempt.token, "lost"))


def show_success_without_an_attempt(world: World) -> None:
    job, _ = ended(world, "cancelled")
    job.state = "success"


def reuse_a_token(world: World) -> None:
    job = next(job for job in world.jobs if job.run > 1)
    first, second = job.attempts[:2]
    for start in of(world, Start):
        if (start.job, start.token) == (job.id, second.token):
            start.token = first.token
    second.token = first.token


def go_back_to_an_older_token(world: World) -> None:
    job = next(job for job in world.jobs if job.run > 1)
    start = next(start for start in of(world, Start) if start.job == job.id and start.run == 2)
    start.token = job.attempts[1].token = job.attempts[0].token - 5


def start_one_claim_twice(world: World) -> None:
    start = next(of(world, Start))
    world.write("worker-9-1", start.at + 5, Start(job=start.job, task="t", run=start.run, token=start.token))


def accept_a_stale_write(world: World) -> None:
    """The newer attempt had begun before the old one's handler even ended."""
    job, late = ended(world, "superseded", 0)
    begun = next(each.at for each in of(world, Start) if each.job == job.id and each.run == 2)
    for end in of(world, End):
        if (end.job, end.token) == (job.id, late.token):
            end.at = begun + 1
    for verdict in of(world, Verdict):
        if (verdict.job, verdict.token, verdict.outcome) == (job.id, late.token, "success"):
            verdict.at, verdict.accepted = begun + 2, True


def forget_what_was_accepted(world: World) -> None:
    _, attempt = ended(world, "success")
    attempt.outcome = "retry"


def forget_an_accepted_attempt(world: World) -> None:
    job, _ = ended(world, "success")
    job.attempts = job.attempts[:-1]


def refuse_what_stands(world: World) -> None:
    job, attempt = ended(world, "success")
    for verdict in of(world, Verdict):
        if (verdict.job, verdict.token) == (job.id, attempt.token):
            verdict.accepted = False


def run_again_after_success(world: World) -> None:
    _, attempt = ended(world, "lost", 0)
    attempt.outcome = "success"


def skip_a_run(world: World) -> None:
    job = next(job for job in world.jobs if job.run > 1)
    job.attempts = job.attempts[1:]


def run_unrecorded(world: World) -> None:
    job = next(job for job in world.jobs if job.run)
    start = Start(job=job.id, task=job.task, run=job.run + 1, token=job.token + 1)
    world.write("worker-9-1", (job.finished or 0) - STORE_AHEAD, start)


def fail_more_often_than_allowed(world: World) -> None:
    world.jobs[0].failures = 4


def lose_more_often_than_allowed(world: World) -> None:
    world.jobs[0].lost = 6


def overlap_two_leases(world: World) -> None:
    job = next(job for job in world.jobs if job.run > 1)
    job.attempts[1].started = job.attempts[0].finished - LEASE // 2


def take_a_lease_too_early(world: World) -> None:
    job = next(
        job for job in world.jobs if job.attempts and job.attempts[0].outcome in {"lost", "superseded"}
    )
    job.attempts[0].finished = job.attempts[0].token + LEASE // 2


def stamp_by_a_wrong_clock(world: World) -> None:
    _, attempt = ended(world, "success")
    attempt.finished += 2 * LEASE


def _accepted(job: str, token: int, outcome: str) -> Verdict:
    return Verdict(job=job, token=token, outcome=outcome, accepted=True)  # type: ignore[arg-type]


BREACHES = [
    Breach("I2", complete_twice),
    Breach("I2", complete_what_is_cancelled),
    Breach("I2", end_one_attempt_two_ways),
    Breach("I2", show_success_without_an_attempt),
    Breach("I3", reuse_a_token),
    Breach("I3", go_back_to_an_older_token),
    Breach("I3", start_one_claim_twice),
    Breach("I4", accept_a_stale_write),
    Breach("I4", forget_what_was_accepted),
    Breach("I4", forget_an_accepted_attempt),
    Breach("I4", refuse_what_stands),
    Breach("I5", run_again_after_success),
    Breach("I5", skip_a_run),
    Breach("I5", run_unrecorded),
    Breach("I5", fail_more_often_than_allowed),
    Breach("I5", lose_more_often_than_allowed),
    Breach("I6", overlap_two_leases),
    Breach("I6", take_a_lease_too_early),
    Breach("I6", stamp_by_a_wrong_clock),
]

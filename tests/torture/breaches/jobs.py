"""Jobs that are lost, made twice, or not what was said of them."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.torture.history import Call, Done, Failed
from tests.torture.breaches.breach import Breach, answered, of
from tests.torture.world import World


def lose_an_accepted_job(world: World) -> None:
    world.jobs.remove(answered(world))


def leave_a_job_waiting(world: World) -> None:
    answered(world).state = "retry"


def keep_what_was_refused(world: World) -> None:
    calls = {(call.who, call.op): call for call in of(world, Call)}
    refused = next(calls[failed.who, failed.op] for failed in of(world, Failed))
    ghost = replace(answered(world), id=refused.job or "ghost", key=refused.key, state="cancelled", run=0)
    world.jobs.append(replace(ghost, attempts=()))


def make_a_job_for_nobody(world: World) -> None:
    job = next(job for job in world.jobs if job.firing)
    job.firing = None


def store_a_job_twice(world: World) -> None:
    world.jobs.append(world.jobs[0])


def answer_a_key_with_two_jobs(world: World) -> None:
    keyed = {job.id for job in world.jobs if job.key}
    done = next(done for done in of(world, Done) if done.job in keyed)
    call = next(call for call in of(world, Call) if (call.who, call.op) == (done.who, done.op))
    other = next(job for job in world.jobs if job.id != done.job)
    op = world.call("producer-9-1", done.at + 1, Call(verb="enqueue", key=call.key))
    world.write("producer-9-1", done.at + 2, Done(op=op, job=other.id))


def store_a_key_twice(world: World) -> None:
    one = next(job for job in world.jobs if job.key)
    other = next(job for job in world.jobs if job is not one and job.key)
    other.key = one.key


def cancel_in_words_only(world: World) -> None:
    job = answered(world)
    op = world.call("operator-0-1", 5, Call(verb="cancel", job=job.id))
    world.write("operator-0-1", 6, Done(op=op, job=job.id, verdict="cancelled"))


def delete_in_words_only(world: World) -> None:
    op = world.call("operator-0-1", 5, Call(verb="cli", does="delete", job=world.jobs[0].id))
    world.write("operator-0-1", 6, Done(op=op))


def edit_in_words_only(world: World) -> None:
    job = world.jobs[0]
    op = world.call("operator-0-1", 5, Call(verb="edit", job=job.id))
    world.write("operator-0-1", 6, Done(op=op, version=job.version + 1))


def lose_what_the_command_line_made(world: World) -> None:
    op = world.call("operator-0-1", 5, Call(verb="cli", does="enqueue", key="by-hand"))
    world.write("operator-0-1", 6, Done(op=op, job="gone"))


def leave_a_lease(world: World) -> None:
    world.jobs[0].state = "running"


BREACHES = [
    Breach("I1", lose_an_accepted_job),
    Breach("I1", keep_what_was_refused),
    Breach("I1", make_a_job_for_nobody),
    Breach("I1", store_a_job_twice),
    Breach("I8", answer_a_key_with_two_jobs),
    Breach("I8", store_a_key_twice),
    Breach("I12", leave_a_job_waiting),
    Breach("I13", leave_a_lease),
    Breach("I14", cancel_in_words_only),
    Breach("I14", delete_in_words_only),
    Breach("I14", edit_in_words_only),
    Breach("I14", lose_what_the_command_line_made),
]

"""Ledgers, locks, schedules and events that do not keep to their promises."""

from __future__ import annotations

from holdfast.torture.dump import Entry, Event
from holdfast.torture.history import Call, Consumed, Done, Fenced, Freed, Granted, Lost
from tests.torture.breaches.breach import Breach, of
from tests.torture.world import World


def write_the_ledger_twice(world: World) -> None:
    world.ledger.append(world.ledger[0])


def write_the_ledger_without_completion(world: World) -> None:
    job = next(job for job in world.jobs if job.state != "success")
    world.ledger.append(Entry(job=job.id, token=job.token))


def leave_the_ledger_row_out(world: World) -> None:
    world.ledger.pop()


def write_the_ledger_under_an_old_token(world: World) -> None:
    world.ledger[0].token -= 1


def grant_a_token_twice(world: World) -> None:
    first, second = list(of(world, Granted))[:2]
    second.token = first.token


def grant_a_smaller_token(world: World) -> None:
    grants = list(of(world, Granted))
    grants[3].token = 7


def grant_what_is_held(world: World) -> None:
    grants = list(of(world, Granted))
    freed = {each.token for each in of(world, Freed) if each.held} - {each.token for each in of(world, Lost)}
    held = next(grant for grant in grants if grant.token in freed)
    use = next(write for write in of(world, Fenced) if write.token == held.token)
    op = world.call("locker-9-1", held.at - 1, Call(verb="lock", lock="l"))
    world.write("locker-9-1", use.at - 1, Granted(lock="l", token=held.token + 1_000, op=op))


def let_the_resource_go_back(world: World) -> None:
    next(write for write in of(world, Fenced) if not write.accepted).accepted = True


def refuse_the_newest_token(world: World) -> None:
    list(of(world, Fenced))[-1].accepted = False
    list(of(world, Fenced))[-1].token += 1


def fire_twice(world: World) -> None:
    one, other = [job for job in world.jobs if job.firing][:2]
    other.firing = one.firing


def leave_a_firing_out(world: World) -> None:
    world.jobs.remove(next(job for job in world.jobs if job.firing))


def fire_off_the_grid(world: World) -> None:
    job = next(job for job in world.jobs if job.firing)
    assert job.firing
    job.firing.due += 1


def lose_an_event(world: World) -> None:
    calls = {(call.who, call.op): call for call in of(world, Call) if call.verb == "emit"}
    done = next(done for done in of(world, Done) if (done.who, done.op) in calls)
    lost = calls[done.who, done.op].event
    world.events = [event for event in world.events if event.id != lost]
    world.records = [
        each for each in world.records if not (isinstance(each, Consumed) and each.event == lost)
    ]


def log_what_was_rolled_back(world: World) -> None:
    last = world.events[-1]
    world.events.append(Event(position=last.position + 1, id="r0", aggregate="z", version=1))


def log_what_nobody_emitted(world: World) -> None:
    last = world.events[-1]
    world.events.append(Event(position=last.position + 1, id="ghost", aggregate="z", version=1))


def never_tell_an_event(world: World) -> None:
    last = world.events[-1].id
    world.records = [
        each for each in world.records if not (isinstance(each, Consumed) and each.event == last)
    ]


def tell_events_out_of_order(world: World) -> None:
    told = [each for each in of(world, Consumed) if each.aggregate == "a0" and each.version <= 2]
    for each in told:
        each.at += 10_000_000 * (each.version == 1)


def log_events_out_of_order(world: World) -> None:
    one, other = [event for event in world.events if event.aggregate == "a0"][:2]
    one.position, other.position = other.position, one.position


BREACHES = [
    Breach("I7", write_the_ledger_twice),
    Breach("I7", write_the_ledger_without_completion),
    Breach("I7", leave_the_ledger_row_out),
    Breach("I7", write_the_ledger_under_an_old_token),
    Breach("I9", grant_a_token_twice),
    Breach("I9", grant_a_smaller_token),
    Breach("I9", grant_what_is_held),
    Breach("I9", let_the_resource_go_back),
    Breach("I9", refuse_the_newest_token),
    Breach("I10", fire_twice),
    Breach("I10", leave_a_firing_out),
    Breach("I10", fire_off_the_grid),
    Breach("I11", lose_an_event),
    Breach("I11", log_what_was_rolled_back),
    Breach("I11", log_what_nobody_emitted),
    Breach("I11", never_tell_an_event),
    Breach("I11", tell_events_out_of_order),
    Breach("I11", log_events_out_of_order),
]

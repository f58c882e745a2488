"""What is told in which order when two ticks may be under way."""

from holdfast.engine.hold import Hold, Terms
from holdfast.engine.outbox import Outbox
from holdfast.model import outcome
from holdfast.model.outcome import Succeeded
from holdfast.model.records import Move
from tests.engine.rig import Rig


async def four_holds() -> list[Hold]:
    rig = Rig()

    async def good() -> None: ...

    task = rig.task(good)
    records = [await rig.job(await rig.add(task)) for _ in range(4)]
    return [Hold(record, task, Terms.of(rig.settings.timing), 0.0) for record in records]


def start(hold: Hold) -> Move:
    return outcome.start(hold.record, 0)


def end(hold: Hold) -> Move:
    return outcome.succeed(hold.record, 0, Succeeded(None))


async def test_reports_leave_in_their_order_and_no_more_than_a_batch_at_once() -> None:
    holds = await four_holds()
    outbox = Outbox(3)
    for hold in holds:
        outbox.put(hold, end(hold))
    assert len(outbox) == 4
    assert [hold for hold, _ in outbox.take()] == holds[:3]
    assert (len(outbox), bool(outbox)) == (1, True)
    assert [hold for hold, _ in outbox.take()] == holds[3:]
    assert (len(outbox), bool(outbox), outbox.take()) == (0, False, [])


async def test_an_end_waits_until_the_tick_with_its_start_is_over_and_others_pass_by() -> None:
    holds = await four_holds()
    outbox = Outbox(3)
    first, second, third, fourth = holds
    outbox.put(first, start(first))
    starting = outbox.take()
    assert [outbox.is_starting(hold) for hold in holds] == [True, False, False, False]
    outbox.put(first, end(first))
    assert (len(outbox), bool(outbox), outbox.take()) == (1, False, [])
    for hold in (second, third, fourth):
        outbox.put(hold, end(hold))
    assert bool(outbox)
    passing = outbox.take()
    assert [hold for hold, _ in passing] == [second, third, fourth], (
        "a whole batch, without the one that waits"
    )
    outbox.settle(passing)
    assert (len(outbox), bool(outbox)) == (1, False), "another tick settles nothing of it"
    outbox.settle(starting)
    assert not outbox.is_starting(first)
    assert [(hold, move.outcome) for hold, move in outbox.take()] == [(first, "success")]
    assert len(outbox) == 0


async def test_a_start_and_its_end_may_leave_together_in_their_order() -> None:
    holds = await four_holds()
    outbox = Outbox(3)
    hold, other = holds[:2]
    outbox.put(hold, start(hold))
    outbox.put(hold, end(hold))
    taken = outbox.take()
    assert [move.outcome for _, move in taken] == [None, "success"]
    outbox.settle(taken)
    assert not outbox.is_starting(hold)
    # The same while another start is under way.
    outbox.put(other, start(other))
    elsewhere = outbox.take()
    outbox.put(hold, start(hold))
    outbox.put(hold, end(hold))
    assert [move.outcome for _, move in outbox.take()] == [None, "success"]
    outbox.settle(elsewhere)
    assert outbox.is_starting(hold)


async def test_an_end_that_a_full_batch_parts_from_its_start_waits_for_it() -> None:
    holds = await four_holds()
    outbox = Outbox(2)
    hold, other = holds[:2]
    outbox.put(other, end(other))
    outbox.put(hold, start(hold))
    outbox.put(hold, end(hold))
    taken = outbox.take()
    assert [(told, move.outcome) for told, move in taken] == [(other, "success"), (hold, None)]
    assert not outbox
    outbox.settle(taken)
    assert [move.outcome for _, move in outbox.take()] == ["success"]

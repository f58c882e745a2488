"""Promises about events: appended with what they tell of, in one order, and kept until they are pruned."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from holdfast.model.events import EventRecord, NewEvent
from holdfast.model.lifecycle import RETRIED, Ending
from holdfast.model.records import LockWish, Verdict
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_job, promise
from holdfast.testing.conformance.optional import is_woken, transactions_of, wakeups_of
from holdfast.testing.conformance.schedules import write

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED


def new_event(topic: str = "orders", aggregate: str | None = None, **fields: Any) -> NewEvent:
    told: dict[str, Any] = {"id": str(uuid4()), "type": "placed", "data": b"1"}
    return NewEvent(topic=topic, aggregate=aggregate, **{**told, **fields})


async def stored(case: Case, **which: Any) -> list[EventRecord]:
    return (await case.session.events.read(0, 10_000, **which)).records


async def ids(case: Case, **which: Any) -> list[str]:
    return [event.id for event in await stored(case, **which)]


class EventPromises(Promises):
    """What happened, in order."""

    @promise
    async def test_an_event_comes_back_as_it_was_appended(self, case: Case) -> None:
        strange = new_event(
            "a/b.c@d", "Zoë's \U0001f40d:42", type="x.y", data=b'{"a":"\xc3\xa4"}', headers=b'{"h":[1]}'
        )
        plain = new_event(data=b"")
        large = new_event(data=bytes(range(1, 256)) * 2_000)
        before = (await case.add()).created
        assert await case.session.events.append([strange, plain, large]) == []
        told = await stored(case)
        after = (await case.add()).created
        assert [
            (e.id, e.topic, e.type, e.data, e.aggregate, e.headers, e.position, e.version) for e in told
        ] == [
            (e.id, e.topic, e.type, e.data, e.aggregate, e.headers, place, version)
            for place, (e, version) in enumerate([(strange, 1), (plain, None), (large, None)], 1)
        ]
        assert all(before <= event.at <= after for event in told)

    @promise
    async def test_positions_have_no_gap_and_versions_count_for_each_aggregate(self, case: Case) -> None:
        lines = [("orders", "a"), ("orders", "b"), ("users", "a"), ("orders", None), ("orders", "a")]
        assert await case.session.events.last() == 0
        await case.session.events.append([new_event(*line) for line in lines])
        assert await case.session.events.last() == 5, "though nobody has read them"
        for line in lines:
            await case.session.events.append([new_event(*line)])
        told = await stored(case)
        assert [event.position for event in told] == list(range(1, 11))
        assert await case.session.events.last() == 10
        assert [event.version for event in told] == [1, 1, 1, None, 2, 3, 2, 2, None, 4]

    @promise
    async def test_an_event_that_is_sent_again_is_stored_once(self, case: Case) -> None:
        events = [new_event(aggregate="a"), new_event(aggregate="a")]
        await case.session.events.append(events)
        await case.session.events.append([*events, events[0], new_event(aggregate="a")])
        assert [event.version for event in await stored(case)] == [1, 2, 3]
        assert (await ids(case))[:2] == [event.id for event in events]
        twice = new_event("other")
        await case.session.events.append([twice, twice])
        assert await ids(case, topic="other") == [twice.id]

    @promise
    async def test_jobs_are_added_with_their_events(self, case: Case) -> None:
        job, event = new_job(key="k", key_ttl=LONG), new_event()
        [added] = await case.session.events.append([event], [job])
        assert added.created
        assert added.record == await case.reload(job.id)
        [again] = await case.session.events.append([event], [new_job(key="k")])
        assert (again.created, again.record.id) == (False, job.id)
        assert await ids(case) == [event.id]

    @promise
    async def test_reading_goes_on_behind_a_position_and_keeps_to_topic_and_aggregate(
        self, case: Case
    ) -> None:
        lines = [("orders", "a"), ("users", "a"), ("orders", "b"), ("orders", "a"), ("orders", None)]
        await case.session.events.append([new_event(*line) for line in lines])
        for which, places in (
            ({}, [1, 2, 3, 4, 5]),
            ({"topic": "orders"}, [1, 3, 4, 5]),
            ({"topic": "users"}, [2]),
            ({"topic": "nothing"}, []),
            ({"topic": "orders", "aggregate": "a"}, [1, 4]),
            ({"topic": "users", "aggregate": "b"}, []),
        ):
            assert [event.position for event in await stored(case, **which)] == places
            for limit in (1, 2, 3):
                found: list[int] = []
                after, is_over = 0, False
                while not is_over:
                    page = await case.session.events.read(after, limit, **which)
                    found += [event.position for event in page.records]
                    assert len(page.records) <= limit
                    assert page.upto >= after
                    if len(page.records) == limit:
                        assert page.upto == page.records[-1].position
                    is_over = page.upto == 5
                    after = page.upto
                assert found == places, (which, limit)
        page = await case.session.events.read(9, 10)
        assert (page.records, page.upto) == ([], 9)

    @promise
    async def test_events_of_a_move_are_appended_with_it_or_not_at_all(self, case: Case) -> None:
        first, second = await case.add(), await case.add()
        claimed = {job.id: job for job in await case.claim(limit=2)}
        done, late, lost = new_event(), new_event(), new_event()
        moves = [
            ended(claimed[first.id], events=(done,)),
            ended(claimed[first.id], RETRIED, Ending.FAILED, events=(late,)),
        ]
        ticked = await case.tick("ann", moves, seq=900)
        assert ticked.verdicts == [ACCEPTED, REFUSED]
        assert await ids(case) == [done.id]
        stranger = ended(claimed[second.id], events=(lost,))
        assert await case.move("bob", stranger) is REFUSED
        assert (await case.tick("ann", moves[:1], seq=900, repeat=True)).verdicts == [ACCEPTED]
        assert await ids(case) == [done.id]

    @promise
    async def test_events_and_children_of_many_moves_are_all_there(self, case: Case) -> None:
        for _ in range(5):
            await case.add()
        jobs = await case.claim(limit=5)
        moves = [
            ended(job, events=(new_event(aggregate="a"), new_event(aggregate="b")), children=(new_job(),))
            for job in jobs[:3]
        ]
        ticked = await case.tick("ann", [*moves, *map(ended, jobs[3:])])
        assert ticked.verdicts == [ACCEPTED] * 5
        assert await ids(case) == [event.id for move in moves for event in move.events]
        assert [event.version for event in await stored(case)] == [1, 1, 2, 2, 3, 3]
        assert None not in await case.jobs.states([move.children[0].id for move in moves])

    @promise
    async def test_events_of_a_schedule_are_appended_with_the_write_or_not_at_all(self, case: Case) -> None:
        fired, late = new_event(), new_event()
        first = write(events=(fired,), jobs=(new_job(),))
        assert await case.session.schedules.write([first]) == [ACCEPTED]
        assert await case.session.schedules.write([first]) == [ACCEPTED], "a repeat"
        assert await case.session.schedules.write([write(events=(late,))]) == [REFUSED]
        over = Term(lock="nobody holds", owner="it", token=1)
        assert await case.session.schedules.write([write(version=1, events=(late,))], over) is None
        assert await ids(case) == [fired.id]

    @promise
    async def test_events_of_another_namespace_are_neither_seen_nor_counted(self, case: Case) -> None:
        other = await case.open(f"{case.namespace}-other")
        mine, theirs = new_event(aggregate="a"), new_event(aggregate="a")
        await case.session.events.append([mine])
        await other.events.append([theirs, new_event()])
        assert await ids(case) == [mine.id]
        [first, _] = (await other.events.read(0, 10)).records
        assert (first.id, first.position, first.version) == (theirs.id, 1, 1)
        assert (await case.session.events.last(), await other.events.last()) == (1, 2)
        case.advance(1)
        assert await case.session.events.prune(0, {}, 10) == 1
        assert await other.events.last() == 2
        assert len((await other.events.read(0, 10)).records) == 2

    @promise
    async def test_only_old_events_that_were_passed_are_pruned(self, case: Case) -> None:
        await case.session.events.append([new_event("orders"), new_event("users"), new_event("orders")])
        case.advance(2)
        await case.session.events.append([new_event("orders")])
        events = case.session.events
        assert await events.prune(60 * SECOND, {}, 10) == 0
        assert await events.prune(SECOND, {"orders": 1, "users": 0}, 10) == 1
        assert [event.position for event in await stored(case)] == [2, 3, 4]
        assert await events.prune(SECOND, {"users": 2}, 1) == 1
        assert await events.prune(SECOND, {"users": 2}, 9) == 1
        assert [event.position for event in await stored(case)] == [4]
        assert await events.last() == 4

    @promise
    async def test_positions_and_versions_go_on_growing_when_events_are_pruned(self, case: Case) -> None:
        events = case.session.events
        await events.append([new_event(aggregate="a"), new_event(aggregate="a"), new_event(aggregate="b")])
        case.advance(1)
        assert await events.prune(0, {}, 1) == 1
        await events.append([new_event(aggregate="a")])
        assert [event.version for event in await stored(case, topic="orders", aggregate="a")] == [2, 3]
        case.advance(1)
        assert await events.prune(0, {}, 10) == 3
        assert await stored(case) == []
        await events.append([new_event(aggregate="a"), new_event(aggregate="b"), new_event("users", "a")])
        told = await stored(case)
        assert [event.position for event in told] == [5, 6, 7]
        assert [event.version for event in told] == [4, 4, 1]

    @promise
    async def test_concurrent_events_have_one_order_that_every_reader_sees(self, case: Case) -> None:
        other = await case.open()
        seen: list[str] = []
        after = 0
        is_over = False

        async def follow() -> None:
            nonlocal after
            while not is_over or await case.session.events.last() > after:
                page = await other.events.read(after, 7)
                seen.extend(event.id for event in page.records)
                after = page.upto
                await asyncio.sleep(0)

        async def tell(session: Any, name: str) -> list[str]:
            told: list[str] = []
            for _ in range(15):
                event = new_event(aggregate=name)
                await session.events.append([event])
                told.append(event.id)
            return told

        async def tell_all() -> list[list[str]]:
            nonlocal is_over
            sessions = (case.session, other, case.session, other)
            told = await asyncio.gather(*(tell(each, f"a{place}") for place, each in enumerate(sessions)))
            await case.session.events.read(0, 1)
            is_over = True
            return told

        _, told = await asyncio.gather(follow(), tell_all())
        assert await ids(case) == seen
        for place, line in enumerate(told):
            assert await ids(case, topic="orders", aggregate=f"a{place}") == line

    @promise
    async def test_listeners_are_woken_by_events(self, case: Case) -> None:
        if case.session.wakeups is None:
            return
        job = await case.add_and_claim()
        wakeups = wakeups_of(case)
        assert await is_woken(wakeups, lambda: case.session.events.append([new_event()]))
        assert await is_woken(wakeups, lambda: case.move("ann", ended(job, events=(new_event(),))))
        assert await is_woken(wakeups, lambda: case.session.schedules.write([write(events=(new_event(),))]))


class EventTransactionPromises(Promises):
    """Events and records in somebody's transaction stand or fall with it."""

    @promise
    async def test_events_are_appended_with_the_commit_and_gone_with_a_rollback(self, case: Case) -> None:
        transactions = transactions_of(case)
        kept, dropped = new_event(aggregate="a"), new_event(aggregate="a")

        async def fail() -> None:
            async with transactions.begin() as connection:
                await transactions.append_in(connection, case.namespace, [dropped])
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with transactions.begin() as connection:
            await transactions.append_in(connection, case.namespace, [kept])
        with transactions.begin_sync() as connection:
            transactions.append_in_sync(connection, case.namespace, [kept, last := new_event(aggregate="a")])
        assert [(event.id, event.version) for event in await stored(case)] == [(kept.id, 1), (last.id, 2)]

    @promise
    async def test_a_move_in_a_transaction_takes_its_events_along(self, case: Case) -> None:
        transactions = transactions_of(case)
        job = await case.add_and_claim()
        event = new_event()
        async with transactions.begin() as connection:
            stranger = await transactions.move_in(
                connection, case.namespace, "bob", ended(job, events=(new_event(),))
            )
            verdict = await transactions.move_in(
                connection, case.namespace, "ann", ended(job, events=(event,))
            )
        assert (stranger, verdict) == (REFUSED, ACCEPTED)
        assert await ids(case) == [event.id]

    @promise
    async def test_a_record_is_written_with_the_commit_as_it_was_seen_and_under_the_term(
        self, case: Case
    ) -> None:
        transactions = transactions_of(case)
        locks = case.session.locks
        token = (await locks.acquire(LockWish(name="l", owner="ann", ttl=LONG))).token
        assert token is not None
        term, over = (Term(lock="l", owner="ann", token=number) for number in (token, token + 1))
        job, event = new_job(), new_event()
        good = write(state=b"one", jobs=(job,), events=(event,))
        bad = write(version=1, jobs=(new_job(),), events=(new_event(),))
        async with transactions.begin() as connection:
            assert await transactions.write_in(connection, case.namespace, bad, term) is REFUSED
            assert await transactions.write_in(connection, case.namespace, good, over) is REFUSED
            assert await transactions.write_in(connection, case.namespace, good, term) is ACCEPTED
        with transactions.begin_sync() as connection:
            last = write(version=1, state=b"two")
            assert transactions.write_in_sync(connection, case.namespace, good, term) is ACCEPTED, "a repeat"
            assert transactions.write_in_sync(connection, case.namespace, last, term) is ACCEPTED
        [record] = (await case.session.schedules.get(["nightly"])).records
        assert (record.state, record.version, record.mark) == (b"two", 2, last.mark)
        assert await case.jobs.get(job.id) is not None
        assert await ids(case) == [event.id]

        async def fail() -> None:
            async with transactions.begin() as connection:
                undone = write(version=2, state=b"three", events=(new_event(),))
                assert await transactions.write_in(connection, case.namespace, undone, term) is ACCEPTED
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        [record] = (await case.session.schedules.get(["nightly"])).records
        assert (record.state, record.version) == (b"two", 2)

"""What is sent for each operation on jobs, and how answers are read."""

from typing import Any

import msgspec
import pytest

from holdfast.model.errors import KeyConflict
from holdfast.model.events import NewEvent
from holdfast.model.flow import Flow, NewFlow
from holdfast.model.lifecycle import DEAD_LETTERED, STARTED, SUCCEEDED, Ending, State
from holdfast.model.records import (
    Edit,
    Extension,
    Held,
    JobRecord,
    Move,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Verdict,
    Want,
    WorkerRecord,
    as_added,
)
from holdfast.stores.mssql.queries import Queries
from holdfast.testing.conformance.schedules import write
from tests.mssql.recorder import NOW, NS, Recorder, row, session

SENT = Queries()
ID = "00000000-0000-7000-8000-00000000000{}"
FULL = NewJob(
    id=ID.format(1),
    task="send",
    queue="mail",
    payload=b'{"a":1}',
    priority=-3,
    delay=5,
    key="k",
    key_ttl=9,
    tags=("x", "y"),
    lease=2,
    timeout=3,
    retry=b"r",
    headers=b"\0\xff",
    flow=NewFlow(limit_key="l", fair_key="f", sequence="s", halts=True, after=(ID.format(9),), expires=4),
)
BARE = NewJob(id=ID.format(2), task="send", queue="mail", payload=b"", due=77)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def decoded(text: Any) -> Any:
    return msgspec.json.decode(text)


def taken(told: dict[str, int], name: str, held: bytes) -> bytes | None:
    """A value that stands beside the JSON, as SUBSTRING of T-SQL takes it."""
    if f"{name}_at" not in told:
        return None
    first = told[f"{name}_at"] - 1
    return held[first : first + told[f"{name}_size"]]


async def test_jobs_are_sent_as_one_call_with_their_bytes_beside_them(recorder: Recorder) -> None:
    recorder.answers = [[[(NOW,)], [], [(1, 5, None, "after")]]]
    async with session(recorder) as opened:
        full, bare = await opened.jobs.add([FULL, BARE])
    [(sql, [ns, told, held])] = recorder.calls
    assert sql == SENT.add == "EXEC holdfast.add_v1 ?, ?, ?"
    assert ns == NS
    first, second = decoded(told)
    assert [taken(first, name, held) for name in ("payload", "headers", "retry")] == [
        b'{"a":1}',
        b"\0\xff",
        b"r",
    ]
    assert [taken(second, name, held) for name in ("payload", "headers", "retry")] == [b"", None, None]
    told_plainly = {name: value for name, value in first.items() if not name.endswith(("_at", "_size"))}
    assert told_plainly == {
        "n": 1,
        "id": FULL.id,
        "task": "send",
        "queue": "mail",
        "priority": -3,
        "delay": 5,
        "key": "k",
        "key_ttl": 9,
        "tags": ["x", "y"],
        "lease": 2,
        "timeout": 3,
        "limit_key": "l",
        "fair_key": "f",
        "sequence": "s",
        "halts": True,
        "after": [ID.format(9)],
        "expires": 4,
    }
    assert {name: second[name] for name in ("n", "due", "id")} == {"n": 2, "due": 77, "id": BARE.id}
    assert bare.record == as_added(BARE, NOW)
    assert (full.created, full.record.due) == (True, NOW + 5)
    assert full.record.flow == Flow(
        limit_key="l", fair_key="f", rank=5, sequence="s", halts=True, expires=NOW + 4, parked="after"
    )


async def test_nothing_to_add_is_not_sent(recorder: Recorder) -> None:
    async with session(recorder) as opened:
        assert await opened.jobs.add([]) == []
        assert await opened.jobs.states([]) == []
    assert recorder.calls == []


async def test_what_stands_in_the_place_of_a_job_is_told(recorder: Recorder) -> None:
    there = as_added(msgspec.structs.replace(BARE, tags=("old",)), NOW - 9)
    recorder.answers = [[[(NOW,)], [(2, "id", *row(there))], []]]
    async with session(recorder) as opened:
        new, old = await opened.jobs.add([FULL, BARE])
    assert new.created
    assert (old.created, old.conflict, old.record) == (False, "id", there)


async def test_a_tick_sends_moves_and_wants_in_one_call(recorder: Recorder) -> None:
    event = NewEvent(id="e", topic="t", type="y", data=b"data", aggregate="a ")
    moves = [
        Move(job=ID.format(1), token=4, path=SUCCEEDED, outcome=Ending.SUCCESS, elapsed=8, result=b"res"),
        Move(
            job=ID.format(2),
            token=5,
            path=DEAD_LETTERED,
            outcome=Ending.FAILED,
            failures=1,
            reason='a "reason"\n',
            error="E\\",
            children=(BARE,),
            events=(event,),
        ),
        Move(job=ID.format(3), token=6, path=STARTED),
    ]
    want = Want(queues=("mail", "post"), tasks=frozenset({"send"}), limit=3, lease=60)
    held_job = JobRecord(ID.format(4), "send", "mail", b"p", State.CLAIMED, 0, 1, 2, worker="w", token=9)
    recorder.answers = [
        [
            [row(held_job)],
            [(ID.format(4), 9)],
            [(1, "post"), (2, "send")],
            [(NOW, 12, 1, "arr", 0)],
        ]
    ]
    async with session(recorder) as opened:
        ticked = await opened.jobs.tick(Tick(worker="w", seq=3, moves=moves, want=want, repeat=True))
    [(sql, sent)] = recorder.calls
    assert sql == SENT.tick
    ns, worker, seq, told, held, texts, queues, tasks, *rest = sent
    assert (ns, worker, seq, rest) == (NS, "w", 3, [3, 60, True])
    assert (decoded(queues), decoded(tasks)) == (["mail", "post"], ["send"])
    success, failure, start = decoded(told)
    assert [each["is_plain"] for each in (success, failure, start)] == [True, False, False]
    assert ["".join(sorted(each["sources"])) for each in (success, failure, start)] == ["12", "12", "1"]
    assert [each["to"] for each in (success, failure, start)] == [3, 6, 2]
    assert taken(success, "result", held) == b"res"
    assert texts == "\x1e" + 'a "reason"\n' + "\x1e" + "E\\" + "\x1e"
    assert (failure["reason"], failure["error"], start["reason"], start["outcome"]) == (0, 1, None, None)
    [child] = failure["children"]
    assert (child["n"], child["id"], child["joined"]) == (1, BARE.id, True)
    [told_event] = failure["events"]
    assert taken(told_event, "data", held) == b"data"
    assert told_event["aggregate"] == "a ."
    assert ticked.verdicts == [Verdict.ACCEPTED, Verdict.REFUSED, Verdict.REFUSED]
    assert ticked.claimed == [held_job]
    assert ticked.cancel_asked == [(ID.format(4), 9)]
    assert (ticked.paused, ticked.paused_tasks) == (frozenset({"post"}), frozenset({"send"}))
    assert (ticked.next_due, ticked.registered) == (12, True)


async def test_a_tick_that_wants_nothing_says_so(recorder: Recorder) -> None:
    recorder.answers = [[[], [], [], [(NOW, None, 0, "", 0)]]]
    async with session(recorder) as opened:
        ticked = await opened.jobs.tick(Tick(worker="w", seq=1, moves=[]))
    assert recorder.last[1] == [NS, "w", 1, None, b"", None, None, None, 0, 0, False]
    assert (ticked.verdicts, ticked.claimed, ticked.registered) == ([], [], False)


@pytest.mark.parametrize("freed", [0, 1])
async def test_whoever_waits_is_woken_by_what_was_freed(recorder: Recorder, freed: int) -> None:
    recorder.answers = [[[], [], [], [(NOW, None, 1, "", freed)]]]
    woken: list[int] = []
    async with session(recorder) as opened:
        opened.wakeups.listen(lambda: woken.append(1))
        await opened.jobs.tick(Tick(worker="w", seq=1, moves=[]))
    assert len(woken) == freed


async def test_a_job_is_extended_once_in_a_call(recorder: Recorder) -> None:
    wishes = [
        Extension(job=ID.format(1), token=1, lease=9, elapsed=2, progress=0.5, progress_note='half\t"'),
        Extension(job=ID.format(2), token=2, lease=9),
        Extension(job=ID.format(1), token=3, lease=8),
    ]
    recorder.answers = [[[(0, "h"), (1, "c")]], [[(0, "l")]]]
    async with session(recorder) as opened:
        assert await opened.jobs.extend("w", wishes) == [Held.HELD, Held.CANCEL_ASKED, Held.LOST]
    (sql, [ns, worker, first, texts]), (_, [_, _, second, no_texts]) = recorder.calls
    assert (sql, ns, worker) == (SENT.extend, NS, "w")
    assert [(each["n"], each["job"], each["note"]) for each in decoded(first)] == [
        (0, ID.format(1), 0),
        (1, ID.format(2), None),
    ]
    assert [each["token"] for each in decoded(second)] == [3]
    assert (texts, no_texts) == ('\x1ehalf\t"\x1e', None)


async def test_an_edit_says_which_states_fit_and_what_changes(recorder: Recorder) -> None:
    edited = as_added(FULL, NOW)
    edited.flow = None
    recorder.answers = [[[("fit", None)], [row(edited)]]]
    edit = Edit(
        path=(State.DLQ, State.SCHEDULED), delay=3, tags=("z",), reason="lone \ud800 and \0", key="k2"
    )
    async with session(recorder) as opened:
        assert await opened.jobs.edit(FULL.id, 4, edit) == edited
    sql, sent = recorder.last
    assert sql == SENT.edit
    assert sent == [
        *(NS, FULL.id, 4, "6", 0, None, None, None, 3, '["z"]'),
        *(None, None, None, "lone ? and \ufffd", "k2", 0, False),
    ]


async def test_an_edit_without_a_path_fits_what_waits_or_is_dead(recorder: Recorder) -> None:
    recorder.answers = [[[("unfit", None)]], [[("held", ID.format(8))]]]
    async with session(recorder) as opened:
        assert await opened.jobs.edit(FULL.id, 1, Edit(priority=1)) is None
        assert sorted(recorder.last[1][3]) == ["0", "5", "6"]
        with pytest.raises(KeyConflict, match=r"'k' is held by job .*8"):
            await opened.jobs.edit(FULL.id, 1, Edit(key="k"))


@pytest.mark.parametrize(
    ("query", "source", "conditions", "args"),
    [
        (Query(), "jobs", [], []),
        (
            Query(states=frozenset({State.DLQ})),
            "finished",
            ["state IN (6)"],
            [],
        ),
        (
            Query(states=frozenset({State.RETRY})),
            "live",
            ["state IN (5)"],
            [],
        ),
        (Query(queue="q", task="t"), "jobs", ["queue = ?", "task = ?"], ["q", "t"]),
        (Query(worker="w"), "live", ["worker = ?"], ["w"]),
        (Query(due_after=1, due_before=2), "jobs", ["due >= ?", "due < ?"], [1, 2]),
        (Query(cursor="c"), "jobs", ["id < CAST(? AS char(36))"], ["c"]),
    ],
)
async def test_a_search_asks_the_smallest_table_that_has_it_all(
    recorder: Recorder, query: Query, source: str, conditions: list[str], args: list[Any]
) -> None:
    found = as_added(BARE, NOW)
    recorder.answers = [[[row(found)]]]
    async with session(recorder, "schema=another_one") as opened:
        assert await opened.jobs.find(query) == [found]
    sql, sent = recorder.last
    where = " AND ".join(["ns = ?", *conditions])
    assert (
        " ".join(sql.split())
        == f"SELECT TOP (?) * FROM [another_one].{source} WHERE {where} ORDER BY id DESC"
    )
    assert sent == [50, NS, *args]


async def test_states_are_told_in_the_order_of_the_question(recorder: Recorder) -> None:
    first, second = as_added(msgspec.structs.replace(FULL, flow=None), NOW), as_added(BARE, NOW)
    recorder.answers = [[[row(second), row(first)]]]
    async with session(recorder) as opened:
        assert await opened.jobs.states([FULL.id, ID.format(5), BARE.id]) == [first, None, second]
    assert recorder.last[1] == [NS, f'["{FULL.id}","{ID.format(5)}","{BARE.id}"]']


async def test_a_row_says_all_of_a_job(recorder: Recorder) -> None:
    job = JobRecord(
        *(ID.format(1), "send", "mail", b"p", State.RUNNING, 1, 2, 3, 4, 5, 6, True, 7, 8, "w", 9, 10, 11),
        *(b"r", b"h", "k", ("x",), 12, 13, True, 0.5, "note", "why", "error", b"res"),
        flow=Flow(limit_key="l", sequence="s", halts=True, expires=14, unmet=2, parked="key:l"),
    )
    told = row(job, limit_key="l", sequence="s", halts=1, expires=14, unmet=2, gate="key:l", suspect=1)
    recorder.answers = [[[told]]]
    async with session(recorder) as opened:
        assert await opened.jobs.get(ID.format(1)) == job


async def test_odd_names_go_out_in_other_words_and_come_back_as_they_were(recorder: Recorder) -> None:
    odd = msgspec.structs.replace(BARE, queue='a"b', task="c\\ ", tags=("\t",), key="k ")
    recorder.answers = [[[(NOW,)], [], []], [[("a\u241b0022b", 0, 2, 1, 0)]], []]
    async with session(recorder) as opened:
        [added] = await opened.jobs.add([odd])
        assert added.record == as_added(odd, NOW)
        assert "\\" not in recorder.last[1][1]
        [told] = decoded(recorder.last[1][1])
        assert (told["queue"], told["task"], told["key"]) == (
            "a\u241b0022b",
            "c\u241b005c\u241b0020",
            "k\u241b0020",
        )
        assert await opened.jobs.count() == [QueueCount(queue='a"b', state=State.SCHEDULED, count=2, due=1)]
        await opened.fleet.pause('a"b')
        assert recorder.last[1] == [NS, "a\u241b0022b"]


async def test_workers_are_told_without_those_that_are_long_gone_which_are_forgotten(
    recorder: Recorder,
) -> None:
    known = ("a\u241b0022b", "h", 1, '["q"]', '["t","u"]', 3, "1.0", NOW, NOW + 1, 1, b"report", NOW + 2)
    gone = ("b", "h", 2, "[]", "[]", 1, "", 1, 2, 0, None, 0)
    recorder.answers = [[[(*known, 1), (*gone, 0)]], []]
    async with session(recorder) as opened:
        assert await opened.fleet.workers() == [
            WorkerRecord(
                id='a"b',
                host="h",
                pid=1,
                queues=("q",),
                tasks=("t", "u"),
                concurrency=3,
                version="1.0",
                started=NOW,
                seen=NOW + 1,
                live=True,
                report=b"report",
                reported=NOW + 2,
            )
        ]
    assert "DELETE FROM holdfast.worker WITH (ROWLOCK, READPAST" in recorder.last[0]


async def test_a_schedule_tells_to_which_write_each_job_and_event_belongs(recorder: Recorder) -> None:
    event = NewEvent(id="e", topic="t", type="y", data=b"data")
    recorder.answers = [[[(",2",)]]]
    writes = [write("a", 0, jobs=(BARE,)), write("b", 3, jobs=(FULL,), events=(event,))]
    async with session(recorder) as opened:
        assert await opened.schedules.write(writes) == [Verdict.ACCEPTED, Verdict.REFUSED]
    ns, lock, owner, token, told, jobs, events, held, hasty = recorder.last[1]
    assert (ns, lock, owner, token, hasty) == (NS, None, None, None, False)
    assert [(each["place"], each["name"], each["version"]) for each in decoded(told)] == [
        (1, "a", 0),
        (2, "b", 3),
    ]
    assert [(each["n"], each["of"], each["id"]) for each in decoded(jobs)] == [
        (1, 1, BARE.id),
        (2, 2, FULL.id),
    ]
    assert [(each["n"], each["of"], taken(each, "data", held)) for each in decoded(events)] == [
        (1, 2, b"data")
    ]
    parts = [*decoded(told), *decoded(jobs), *decoded(events)]
    names = [
        (part, name.removesuffix("_at")) for part in parts for name in part if f"{name[:-3]}_size" in part
    ]
    found = [taken(part, name, held) for part, name in names if name]
    # All bytes belong to somebody, and none to two.
    assert sum(len(each or b"") for each in found) == len(held)

"""Whoever waits for several rows does so in one order, so that no two wait for each other."""

import re

import pytest

from tests.mssql.locking import FLOW, Write, keys, loops, waited_for, writes
from tests.mssql.tsql import Procedure, calls, procedures, sent

SETS = {
    ("extend_v1", "lease"): "EXEC holdfast.hold_leases_v1",
    ("lock_acquire_v1", "lock_line"): "EXEC holdfast.lock_enter_v1",
    ("prune_events_v1", "event"): "EXEC holdfast.event_enter_v1",
    ("prune_events_v1", "event_floor"): "EXEC holdfast.event_enter_v1",
    ("rank_new_v1", "fair"): "EXEC holdfast.keep_fair_v1",
    ("settle_new_v1", "link"): "EXEC holdfast.hold_job_v1",
    ("sweep_gates_v1", "behind"): "EXEC holdfast.take_flow_v1 @ns, 'Exclusive'",
    ("sweep_gates_v1", "gate"): "EXEC holdfast.take_flow_v1 @ns, 'Exclusive'",
}
"""Writes of several rows that have no order: what is called before, by which nobody else has any of them."""

BESIDE = {("forget_beside_v1", "attempt"), ("forget_beside_v1", "link")}
"""The same for rows of jobs in #gone, which the caller has removed."""

ASCENDING = {
    "hold_leases_v1": "job",
    "keep_keys_v1": "name",
    "lock_move_v1": "token",
    "lock_moves_v1": "job",
}
"""Loops that wait for one row after the other: the column by whose order they go."""

BY_TURN = {"lock_renew_v1": "h.name", "schedule_put_v1": "w.name"}
"""The same, by numbers that were given in the order of names."""

SORTED = {"rank_new_v1": "w.queue, w.fair_key"}

HAD = {"moves_v1": "EXEC holdfast.lock_moves_v1", "add_new_v1": "EXEC holdfast.keep_keys_v1"}
"""Loops whose rows are locked before, in their order."""

ONE_ROW = {
    *("add_one_v1", "event_enter_v1", "keep_fair_v1", "lock_enter_v1", "lock_token_v1", "pause_v1"),
    *("register_v1", "take_key_v1"),
}
"""Loops that try the same row again."""

ALONE = {
    *("claim_ready_v1", "link_new_v1", "mark_gates_v1", "mark_limit_v1", "open_gate_v1", "open_gates_v1"),
    *("pass_v1", "settle_links_v1", "settle_notes_v1", "tick_v1"),
}
"""Loops of whoever has the flow lock, which keeps away all others who go from job to job."""

BY_THEMSELVES = {"sequence_all_v1": "sequence_v1"}
"""Loops each of whose rounds is a transaction: what they call."""

BEFORE_FLOW = {"lock", "schedule"}
"""Rows that no holder of the flow lock asks for."""

each_procedure = pytest.mark.parametrize("procedure", procedures().values(), ids=lambda found: found.name)


@each_procedure
def test_a_write_is_of_one_row_or_passes_over_what_others_have(procedure: Procedure) -> None:
    for write in writes(procedure.body):
        if write.is_of_one_row or write.passes_over or (procedure.name, write.table) in BESIDE:
            continue
        before = SETS[procedure.name, write.table]
        assert before in procedure.body.partition(write.text)[0], write


@pytest.mark.parametrize("place", [place for place, sql in sent().items() if "EXEC" not in sql])
def test_so_is_what_python_sends(place: str) -> None:
    for write in writes(f"{sent()[place]};"):
        assert write.is_of_one_row or write.passes_over, write


def test_all_that_is_said_of_sets_is_needed() -> None:
    found = {
        (procedure.name, write.table)
        for procedure in procedures().values()
        for write in writes(procedure.body)
        if not write.is_of_one_row and not write.passes_over
    }
    assert found == set(SETS) | BESIDE


def test_what_is_kept_beside_a_job_is_removed_by_whoever_has_removed_the_job() -> None:
    callers = [each for each in procedures().values() if "holdfast.forget_beside_v1" in each.body]
    assert len(callers) == 2
    for caller in callers:
        assert "INTO #gone" in caller.body.partition("holdfast.forget_beside_v1")[0]


def looping() -> dict[str, str]:
    """The loops of each procedure that wait for rows."""
    found = {
        name: [loop for loop in loops(each.body) if waited_for(loop)] for name, each in procedures().items()
    }
    return {name: "\n".join(waiting) for name, waiting in found.items() if waiting}


def test_it_is_said_of_each_loop_that_waits_why_it_may() -> None:
    said = [set(ASCENDING), set(BY_TURN), set(SORTED), set(HAD), set(BY_THEMSELVES), ONE_ROW, ALONE]
    assert set().union(*said) == set(looping())
    assert sum(map(len, said)) == len(looping())


@pytest.mark.parametrize("name", ASCENDING)
def test_a_loop_goes_from_row_to_row_in_the_order_of_their_keys(name: str) -> None:
    column = ASCENDING[name]
    steps = re.findall(
        r"SELECT @(\w+) = MIN\((\w)\.(\w+)\) FROM #\w+ AS \w\s+WHERE ([^;]*);", looping()[name]
    )
    [(variable, alias, taken, where)] = steps
    assert taken == column
    assert f"{alias}.{column} > @{variable}" in where


@pytest.mark.parametrize("name", BY_TURN)
def test_a_loop_goes_by_numbers_that_were_given_in_the_order_of_keys(name: str) -> None:
    body = procedures()[name].body
    assert f"ROW_NUMBER() OVER (ORDER BY {BY_TURN[name]} COLLATE Latin1_General_BIN2" in body
    assert "SET @turn = @turn + 1;" in looping()[name]


@pytest.mark.parametrize("name", SORTED)
def test_a_loop_takes_the_next_of_those_that_are_sorted(name: str) -> None:
    assert re.search(rf"SELECT TOP \(1\)[^;]*ORDER BY {re.escape(SORTED[name])};", looping()[name])


@pytest.mark.parametrize("name", HAD)
def test_a_loop_in_another_order_finds_its_rows_locked(name: str) -> None:
    before, _, _ = procedures()[name].body.partition(looping()[name])
    assert HAD[name] in before


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_a_loop_whose_rounds_are_transactions_has_nothing_between_them(name: str) -> None:
    [called] = calls(looping()[name])
    assert called.name == BY_THEMSELVES[name]
    assert "COMMIT TRANSACTION" in procedures()[called.name].body


@pytest.mark.parametrize("name", sorted(ONE_ROW))
def test_a_loop_that_tries_again_writes_to_the_same_rows(name: str) -> None:
    assert not re.search(r"MIN\(|TOP \(1\)|@turn", looping()[name])
    assert all(write.is_of_one_row for write in writes(looping()[name]))


@pytest.mark.parametrize("name", sent())
def test_the_flow_lock_is_waited_for_before_any_row_that_its_holder_may_want(name: str) -> None:
    asked = waited_for(sent()[name], joined=name.startswith("transactions"))
    if FLOW in asked:
        last = len(asked) - asked[::-1].index(FLOW)
        assert set(asked[:last]) <= BEFORE_FLOW | {FLOW}


def test_the_flow_lock_is_asked_for_by_many() -> None:
    assert sum(FLOW in waited_for(sql) for sql in sent().values()) > 8


@pytest.mark.parametrize("name", ["tick_v1", "edit_v1", "forget_v1", "release_v1"])
def test_it_is_asked_for_first_of_all(name: str) -> None:
    assert waited_for(procedures()[name].body)[0] == FLOW


def test_a_job_is_locked_before_what_tells_of_its_lease() -> None:
    assert waited_for(procedures()["lock_move_v1"].body)[:2] == ["job", "lease"]
    assert calls(procedures()["moves_v1"].body)[1].name == "lock_moves_v1"


@pytest.mark.parametrize(
    ("sql", "is_one", "passes"),
    [
        ("UPDATE holdfast.job SET seq = 1 WHERE ns = @ns AND id = @job AND ready = 1;", True, False),
        ("UPDATE holdfast.job SET seq = 1 WHERE ns = @ns AND ready = 1;", False, False),
        ("UPDATE holdfast.job SET seq = 1 WHERE ns = @ns AND (id = @job OR id = @other);", False, False),
        ("DELETE FROM holdfast.job WHERE ns = @ns AND id IN (SELECT m.job FROM #move AS m);", False, False),
        ("DELETE TOP (5) FROM holdfast.note WITH (ROWLOCK, READPAST) WHERE ns = @ns;", False, True),
        ("UPDATE j SET seq = 1 FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job;", True, False),
        (
            "UPDATE j SET seq = 1 FROM holdfast.job AS j INNER JOIN #a AS a ON a.id = j.id WHERE j.ns = @ns;",
            False,
            False,
        ),
        (
            "DELETE FROM holdfast.job WHERE ns = @ns AND id IN (SELECT i.id FROM #i AS i WITH (READPAST));",
            False,
            False,
        ),
    ],
)
def test_it_would_be_seen(sql: str, is_one: bool, passes: bool) -> None:
    [write] = writes(sql)
    assert isinstance(write, Write)
    assert (write.is_of_one_row, write.passes_over) == (is_one, passes)


def test_keys_of_all_tables_are_known() -> None:
    assert keys()["lock_line"] == [["ns", "name", "arrival"], ["ns", "name", "owner"]]
    assert len(keys()) > 20

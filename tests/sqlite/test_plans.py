"""Query plans of the statements on the way of a job: each goes by its index, whatever is in the tables."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores.sqlite.statements import PREFIX, Statement, statements
from tests.sqlite.support import file_of, store_at

SQL = statements(PREFIX)
TABLES = frozenset(
    {
        "j",
        "d",
        "s",
        "h",
        "k",
        "ev",
        "holdfast_job",
        "holdfast_done",
        "holdfast_body",
        "holdfast_schedule",
        "holdfast_event",
        "holdfast_line",
        "holdfast_link",
    }
)
JOB, DONE, SCHEDULE, EVENT = "holdfast_job", "holdfast_done", "holdfast_schedule", "holdfast_event"
BY_ID = "holdfast_job_id (ns=? AND id=?)"
LINE, LINK = "holdfast_line", "holdfast_link"
PARKED = "holdfast_job_parked (ns=? AND gate=?"
OF_AGGREGATE = "holdfast_event_aggregate (ns=? AND topic=? AND aggregate=?"

PLANS = [
    (SQL.get("complete"), f"SEARCH j USING INDEX {BY_ID}"),
    (SQL.get("forget_completed"), f"SEARCH {JOB} USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("claimed"), "SEARCH j USING INDEX holdfast_job_leased (ns=? AND worker=? AND seq=?)"),
    (SQL.get("forget_completed"), f"SEARCH {DONE} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    (SQL.get("tally_completed"), f"SEARCH {DONE} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    (SQL.get("promote"), "SEARCH j USING COVERING INDEX holdfast_job_later (ns=? AND queue=? AND due<?)"),
    (SQL.claim(1), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL.claim(3), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL.get("answer"), "SEARCH j USING INDEX holdfast_job_leased (ns=? AND worker=? AND seq=?)"),
    (SQL.get("answer"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_asked (ns=? AND worker=?)"),
    (SQL.get("answer"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_later (ns=? AND queue=?)"),
    (SQL.get("peek"), "SEARCH j USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL.get("extend"), "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("extend"), f"SEARCH h USING INDEX {BY_ID}"),
    (SQL.get("held"), f"SEARCH j USING INDEX {BY_ID}"),
    (SQL.get("change_live"), "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("change_done"), "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("finish"), f"SEARCH j USING INDEX {BY_ID}"),
    (SQL.get("revive"), "SEARCH j USING INDEX holdfast_done_id (ns=? AND id=?)"),
    (SQL.get("forget_bodies"), "SEARCH holdfast_body USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("expired"), f"SEARCH {JOB} USING INDEX holdfast_job_leased (ns=? AND worker>?)"),
    (SQL.get("add_taken"), "SEARCH h USING PRIMARY KEY (ns=? AND key=?)"),
    (SQL.get("prunable"), f"SEARCH {DONE} USING INDEX holdfast_done_finished (ns=? AND finished<?)"),
    (SQL.get("count"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_later (ns=?)"),
    (SQL.get("queues"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=?)"),
    (SQL.get("queues"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue>?)"),
    (
        SQL.get("queues"),
        f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=? AND priority>?)",
    ),
    (SQL.get("queues"), f"SEARCH {JOB} USING INDEX holdfast_job_later (ns=? AND queue=? AND due<?)"),
    (SQL.get("queues"), "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("locks"), "SEARCH k USING PRIMARY KEY (ns=? AND name>?)"),
    (
        SQL.get("find_done", "AND state = 6 AND state <> 3"),
        f"SEARCH {DONE} USING INDEX holdfast_done_other (ns=? AND state=?)",
    ),
    (SQL.get("schedule_marks"), "SEARCH s USING INDEX holdfast_schedule_name (ns=? AND name=?)"),
    (SQL.get("schedules"), "SEARCH s USING INDEX holdfast_schedule_name (ns=? AND name=?)"),
    (
        SQL.get("schedules_after"),
        f"SEARCH {SCHEDULE} USING COVERING INDEX holdfast_schedule_name (ns=? AND name>?)",
    ),
    (
        SQL.get("schedules_due"),
        f"SEARCH {SCHEDULE} USING COVERING INDEX holdfast_schedule_look (ns=? AND look_at<?)",
    ),
    (SQL.get("schedules_ended"), "SEARCH s USING INDEX holdfast_schedule_waits (ns=?)"),
    (SQL.get("schedules_ended"), f"SEARCH {JOB} USING COVERING INDEX {BY_ID}"),
    (SQL.get("events_before"), "SEARCH ev USING COVERING INDEX holdfast_event_id (ns=? AND id=?)"),
    (
        SQL.get("events_before"),
        f"SEARCH ev USING COVERING INDEX {OF_AGGREGATE})",
    ),
    (
        SQL.get("events_after"),
        f"SEARCH {EVENT} USING INDEX holdfast_event_position (ns=? AND position>?)",
    ),
    (
        SQL.get("events_after", "AND topic = :topic"),
        f"SEARCH {EVENT} USING INDEX holdfast_event_topic (ns=? AND topic=? AND position>?)",
    ),
    (
        SQL.get("events_after", "AND topic = :topic AND aggregate = :aggregate"),
        f"SEARCH {EVENT} USING INDEX {OF_AGGREGATE} AND position>?)",
    ),
    (SQL.get("events"), "SEARCH ev USING INDEX holdfast_event_position (ns=? AND position=?)"),
    (SQL.get("events_prunable"), "SEARCH ev USING INDEX holdfast_event_position (ns=? AND position=?)"),
    (
        SQL.get("events_prunable"),
        f"SEARCH {EVENT} USING COVERING INDEX holdfast_event_topic (ns=? AND topic=? AND position>?)",
    ),
    (SQL.get("events_forget"), f"SEARCH {EVENT} USING INDEX holdfast_event_position (ns=? AND position=?)"),
    (
        SQL.get("event_floors"),
        f"SEARCH ev USING COVERING INDEX {OF_AGGREGATE})",
    ),
    (SQL.get("complete:flow"), f"SEARCH j USING INDEX {BY_ID}"),
    (SQL.get("claimed:flow"), "SEARCH j USING INDEX holdfast_job_leased (ns=? AND worker=? AND seq=?)"),
    (SQL.claim(1, "claim:flow"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL.get("peek"), f"SEARCH {LINE} USING COVERING INDEX holdfast_line_opens (ns=? AND opens>?)"),
    (SQL.get("candidates"), f"SEARCH {JOB} USING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL.get("take"), f"SEARCH {JOB} USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("park"), "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("lines_open"), f"SEARCH {LINE} USING COVERING INDEX holdfast_line_opens (ns=? AND opens<?)"),
    (SQL.get("lines_mark"), f"SEARCH {LINE} USING PRIMARY KEY (ns=? AND gate=?)"),
    (SQL.get("lines_free"), f"SEARCH {JOB} USING COVERING INDEX {PARKED} AND queue=? AND task=?)"),
    (SQL.get("lines_free"), f"SEARCH {JOB} USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL.get("lines_settle"), "SEARCH l USING PRIMARY KEY (ns=? AND gate=? AND queue=? AND task=?)"),
    (SQL.get("lines_forget"), f"SEARCH {LINE} USING PRIMARY KEY (ns=? AND gate=? AND queue=? AND task=?)"),
    (SQL.get("lines_forget"), f"SEARCH j USING COVERING INDEX {PARKED} AND queue=? AND task=?)"),
    (SQL.get("turns_free"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_turn (ns=? AND sequence=?)"),
    (SQL.get("sequences_next"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_turn (ns=? AND sequence=?)"),
    (
        SQL.get("keys_leased"),
        f"SEARCH {JOB} USING INDEX holdfast_job_limit_key (ns=? AND limit_key=?)",
    ),
    (SQL.get("rates_open"), "SEARCH l USING PRIMARY KEY (ns=? AND gate=?)"),
    (SQL.get("usage"), f"SEARCH {JOB} USING COVERING INDEX {PARKED})"),
    (SQL.get("overdue"), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_expires (ns=? AND expires<?)"),
    (SQL.get("links_told"), "SEARCH l USING COVERING INDEX holdfast_link_job (ns=? AND job=?)"),
    (SQL.get("links_end"), "SEARCH l USING PRIMARY KEY (ns=? AND waiter=? AND job=?)"),
    (
        SQL.get("links_let_go"),
        "SEARCH l USING COVERING INDEX holdfast_link_pending (ns=? AND waiter=? AND state=?)",
    ),
    (SQL.get("links_let_go"), f"SEARCH {JOB} USING INDEX {BY_ID}"),
    (SQL.get("links_before"), f"SEARCH {LINK} USING PRIMARY KEY (ns=? AND waiter=? AND job>?)"),
    (
        SQL.get("fair_floors"),
        f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=? AND priority=?)",
    ),
]


async def plan(folder: Path, sql: Statement) -> list[str]:
    await store_at(folder).migrations.apply()
    with closing(sqlite3.connect(file_of(folder))) as connection:
        return [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql.sql}", [None] * len(sql.names))
        ]


@pytest.mark.parametrize(("sql", "step"), PLANS)
async def test_a_statement_goes_by_its_index(tmp_path: Path, sql: Statement, step: str) -> None:
    steps = await plan(tmp_path, sql)
    assert step in steps, steps


@pytest.mark.parametrize("sql", sorted({sql for sql, _ in PLANS}))
async def test_no_statement_reads_a_table_of_jobs_whole(tmp_path: Path, sql: Statement) -> None:
    steps = await plan(tmp_path, sql)
    for step in steps:
        scanned = re.match(r"SCAN (\w+)(?! VIRTUAL TABLE)", step)
        # A page that was chosen by an index has a step of its own.
        assert scanned is None or scanned[1] not in TABLES or f"CO-ROUTINE {scanned[1]}" in steps, steps


@pytest.mark.parametrize(
    "sql",
    [
        SQL.claim(1),
        SQL.claim(1, "claim:flow"),
        SQL.get("candidates"),
        SQL.get("lines_free"),
        SQL.get("overdue"),
        SQL.get("promote"),
        SQL.get("schedules_due"),
        SQL.get("schedules_ended"),
        SQL.get("events_after"),
        SQL.get("events_after", "AND topic = :topic"),
        SQL.get("events_after", "AND topic = :topic AND aggregate = :aggregate"),
    ],
)
async def test_a_look_for_what_is_due_does_not_sort_it(tmp_path: Path, sql: Statement) -> None:
    assert not [step for step in await plan(tmp_path, sql) if "TEMP B-TREE" in step]


MANY_PARKED = """
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 100000)
INSERT INTO holdfast_job (ns, id, task, queue, priority, due, rank, created, limit_key, gate)
SELECT 1, 'job-' || n, 'send', 'mail', 0, n, n, n, 'key-' || (n % 1000), 'key:key-' || (n % 1000) FROM number
"""


async def test_many_parked_jobs_do_not_make_sqlite_think_again(tmp_path: Path) -> None:
    await store_at(tmp_path).migrations.apply()
    with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
        connection.execute(MANY_PARKED)
        connection.execute("ANALYZE")
    for sql, step in PLANS:
        if "holdfast_job_parked" in step or sql in (SQL.claim(1), SQL.get("candidates"), SQL.get("peek")):
            assert step in await plan(tmp_path, sql)


async def test_looking_at_queues_costs_no_more_with_more_jobs(tmp_path: Path) -> None:
    await store_at(tmp_path).migrations.apply()
    statement = SQL.get("queues")
    row = "INSERT INTO holdfast_job (ns, id, task, queue, priority, due, rank, ready, created)"
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        steps: list[int] = []
        for first, last in ((0, 100), (100, 4_000)):
            jobs = ((str(n), f"q{n % 2}", n % 3, n, n, n % 5 != 0) for n in range(first, last))
            connection.executemany(f"{row} VALUES (1, ?, 't', ?, ?, ?, ?, ?, 5)", jobs)
            done = 0

            def step() -> int:
                nonlocal done
                done += 1
                return 0

            connection.set_progress_handler(step, 1)
            given = {"ns": 1, "now": 10_000}
            connection.execute(statement.sql, [given[name] for name in statement.names]).fetchall()
            connection.set_progress_handler(None, 0)
            steps.append(done)
    assert steps[1] < 1.5 * steps[0]

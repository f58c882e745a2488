"""Query plans of the statements on the way of a job: each goes by its index, whatever is in the tables."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores.sqlite.statements import PREFIX, statements
from tests.sqlite.support import file_of, store_at

SQL = statements(PREFIX)
JOB, DONE = "holdfast_job", "holdfast_done"
BY_ID = "holdfast_job_id (ns=? AND id=?)"

PLANS = [
    (SQL["complete"], f"SEARCH j USING INDEX {BY_ID}"),
    (SQL["forget_completed"], f"SEARCH {JOB} USING INDEX {BY_ID}"),
    (SQL["forget_completed"], f"SEARCH {DONE} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    (SQL["tally_completed"], f"SEARCH {DONE} USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    (SQL["promote"], "SEARCH j USING COVERING INDEX holdfast_job_later (ns=? AND queue=? AND due<?)"),
    (SQL.claim(1), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL.claim(3), f"SEARCH {JOB} USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL["answer"], f"SEARCH {JOB} USING INDEX holdfast_job_leased (ns=? AND worker=? AND seq=?)"),
    (SQL["answer"], f"SEARCH {JOB} USING COVERING INDEX holdfast_job_asked (ns=? AND worker=?)"),
    (SQL["answer"], f"SEARCH {JOB} USING COVERING INDEX holdfast_job_later (ns=? AND queue=?)"),
    (SQL["peek"], "SEARCH j USING COVERING INDEX holdfast_job_ready (ns=? AND queue=?)"),
    (SQL["extend"], "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
    (SQL["extend"], f"SEARCH h USING INDEX {BY_ID}"),
    (SQL["held"], f"SEARCH j USING INDEX {BY_ID}"),
    (SQL["expired"], f"SEARCH {JOB} USING INDEX holdfast_job_leased (ns=? AND worker>?)"),
    (SQL["add_taken"], "SEARCH h USING PRIMARY KEY (ns=? AND key=?)"),
    (SQL["prunable"], f"SEARCH {DONE} USING INDEX holdfast_done_finished (ns=? AND finished<?)"),
    (SQL["count"], f"SEARCH {JOB} USING COVERING INDEX holdfast_job_later (ns=?)"),
    (
        SQL["find_done"].replace("{conditions}", "AND state = 6 AND state <> 3"),
        f"SEARCH {DONE} USING INDEX holdfast_done_other (ns=? AND state=?)",
    ),
]


async def plan(folder: Path, sql: str) -> list[str]:
    await store_at(folder).migrations.apply()
    names: dict[str, object] = dict.fromkeys(re.findall(r":(\w+)", sql))
    with closing(sqlite3.connect(file_of(folder))) as connection:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", names)]


@pytest.mark.parametrize(("sql", "step"), PLANS)
async def test_a_statement_goes_by_its_index(tmp_path: Path, sql: str, step: str) -> None:
    steps = await plan(tmp_path, sql)
    assert step in steps, steps


@pytest.mark.parametrize("sql", sorted({sql for sql, _ in PLANS if "{conditions}" not in sql}))
async def test_no_statement_reads_a_table_of_jobs_whole(tmp_path: Path, sql: str) -> None:
    for step in await plan(tmp_path, sql):
        assert not re.fullmatch(rf"SCAN (j|h|{JOB}|{DONE})( .*)?", step), step


@pytest.mark.parametrize("sql", [SQL.claim(1), SQL["promote"]])
async def test_a_claim_does_not_sort_what_is_ready(tmp_path: Path, sql: str) -> None:
    assert not [step for step in await plan(tmp_path, sql) if "TEMP B-TREE" in step]

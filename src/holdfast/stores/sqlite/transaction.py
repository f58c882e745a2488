"""An open transaction: what every operation works with."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from holdfast.model.records import JobRecord
from holdfast.stores.sqlite.columns import LONG
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.rows import Answer, Unreadable, records, salvage
from holdfast.stores.sqlite.statements import Statements


class Transaction:
    """A connection with a transaction open on it, for one namespace, at one moment of the store's clock.

    The connection must give text as bytes: a damaged row must not keep the others from being read.
    """

    __slots__ = ("_connection", "now", "ns", "sql")

    def __init__(self, connection: sqlite3.Connection, sql: Statements, ns: int, now: int) -> None:
        self._connection = connection
        self.sql = sql
        self.ns = ns
        self.now = now

    def run(self, name: str, /, **parameters: Any) -> sqlite3.Cursor:
        """Executes a statement by its name; `ns` and `now` are there for every one."""
        return self.run_sql(self.sql[name], parameters)

    def run_sql(self, sql: str, parameters: dict[str, Any]) -> sqlite3.Cursor:
        parameters["ns"] = self.ns
        parameters["now"] = self.now
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(sql, parameters)

    def row(self, name: str, /, **parameters: Any) -> Answer:
        """The one row of an answer."""
        found: Answer = self.run(name, **parameters).fetchone()
        return found

    def jobs(self, name: str, /, *, conditions: str = "", **parameters: Any) -> list[JobRecord]:
        """The jobs that a statement gives, in its order; `conditions` narrow it."""
        return self.jobs_and_more(name, conditions=conditions, **parameters)[0]

    def jobs_and_more(
        self, name: str, /, *, conditions: str = "", **parameters: Any
    ) -> tuple[list[JobRecord], Answer | None]:
        """The jobs, and what else was told with them; None in its place if some had to be salvaged."""
        try:
            answer = self._whole(self.sql[name].replace("{conditions}", conditions), parameters)
            return records(answer), answer[len(LONG) + 1 :]
        except Unreadable:
            plain = self.sql[f"{name}:plain"].replace("{conditions}", conditions)
            return [salvage(row) for row in self.run_sql(plain, parameters).fetchall()], None

    def _whole(self, sql: str, parameters: dict[str, Any]) -> Answer:
        try:
            answer: Answer = self.run_sql(sql, parameters).fetchone()
        except sqlite3.OperationalError as error:
            if "JSON cannot hold BLOB values" in str(error):
                raise Unreadable from error
            raise
        return answer

    def by_id(self, ids: Sequence[str]) -> dict[str, JobRecord]:
        """Those of the jobs that are stored, live or finished."""
        if not ids:
            return {}
        asked = as_json(ids)
        found = [*self.jobs("live_by_id", ids=asked), *self.jobs("done_by_id", ids=asked)]
        return {record.id: record for record in found}

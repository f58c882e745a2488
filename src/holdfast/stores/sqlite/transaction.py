"""An open transaction: what every operation works with."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from holdfast.model.records import JobRecord
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.rows import WIDTH, Answer, Unreadable, records, salvage
from holdfast.stores.sqlite.statements import Statement, Statements


class Transaction:
    """A connection with a transaction open on it, for one namespace, at one moment of the store's clock.

    The connection must give plain rows with text as bytes: a damaged row must not keep the others from being
    read.
    """

    __slots__ = ("_connection", "_flows", "freed", "now", "ns", "sql", "wakes")

    def __init__(
        self,
        connection: sqlite3.Connection,
        sql: Statements,
        ns: int,
        now: int,
        flows: set[int] | None = None,
    ) -> None:
        self._connection = connection
        self.sql = sql
        self.ns = ns
        self.now = now
        self.wakes = False
        """Whether others have something to do after it, beside those whom the caller knows of."""
        self.freed = 0
        """How many jobs wait for their turn again that were parked."""
        self._flows = set[int]() if flows is None else flows

    @property
    def knows_flows(self) -> bool:
        """Whether flows are known to be in use in the namespace; once they were, they always are."""
        return self.ns in self._flows

    def uses_flows(self) -> bool:
        """Whether they are in use, looked up if that is not known."""
        if not self.knows_flows and self.run("flow_mark").fetchone() is not None:
            self.note_flows()
        return self.knows_flows

    def note_flows(self) -> None:
        self._flows.add(self.ns)

    def begin_flow(self) -> None:
        """From now on flows are in use."""
        self.run("flow_begin")
        self.note_flows()

    def run(self, name: str, /, **parameters: Any) -> sqlite3.Cursor:
        """Executes a statement by its name; `ns` and `now` are there for every one."""
        return self.run_statement(self.sql.get(name), parameters)

    def run_statement(self, statement: Statement, parameters: dict[str, Any]) -> sqlite3.Cursor:
        parameters["ns"] = self.ns
        parameters["now"] = self.now
        return self._connection.execute(statement.sql, [parameters[name] for name in statement.names])

    def row(self, name: str, /, **parameters: Any) -> Answer:
        """The one row of an answer. Raises Unreadable if a damaged value cannot be part of it."""
        return self._row(self.sql.get(name), parameters)

    def jobs(self, name: str, /, *, conditions: str = "", **parameters: Any) -> list[JobRecord]:
        """The jobs that a statement gives, in its order; `conditions` narrow it."""
        return self.jobs_and_more(name, conditions=conditions, **parameters)[0]

    def jobs_and_more(
        self, name: str, /, *, conditions: str = "", **parameters: Any
    ) -> tuple[list[JobRecord], Answer | None]:
        """The jobs, and what else was told with them; None in its place if some had to be salvaged."""
        try:
            answer = self._row(self.sql.get(name, conditions), parameters)
            return records(answer), answer[WIDTH:]
        except Unreadable:
            plain = self.sql.get(f"{name}:plain", conditions)
            return [salvage(row) for row in self.run_statement(plain, parameters).fetchall()], None

    def _row(self, statement: Statement, parameters: dict[str, Any]) -> Answer:
        try:
            answer: Answer = self.run_statement(statement, parameters).fetchone()
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

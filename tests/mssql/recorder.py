"""A driver without a server that remembers what is sent, and answers as it was told."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from holdfast.model.records import JobRecord
from holdfast.stores.listeners import Listeners
from holdfast.stores.mssql.address import Address, parse
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import Row, Value
from holdfast.stores.mssql.rows import CODES
from holdfast.stores.mssql.store import MssqlSession
from holdfast.stores.waiters import Waiters
from tests.mssql.fake_driver import FakeConnection, FakeDriver

NS = 7
NOW = 1_800_000_000_000_000


class RecordingConnection(FakeConnection):
    def __init__(self, recorder: "Recorder", patience: float | None) -> None:
        super().__init__(recorder, patience)
        self._recorder = recorder

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[list[Row]]:
        super().execute(sql, parameters)
        self._recorder.calls.append((sql, list(parameters)))
        return self._recorder.answers.pop(0) if self._recorder.answers else []


class Recorder(FakeDriver):
    """`calls` are the statements with their parameters, `answers` the result sets for those to come."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[Any]]] = []
        self.answers: list[list[list[Row]]] = []

    def connect(self, address: Address, token: str | None, patience: float | None) -> FakeConnection:
        self.made.append(RecordingConnection(self, patience))
        return self.made[-1]

    @property
    def last(self) -> tuple[str, list[Any]]:
        return self.calls[-1]


@asynccontextmanager
async def session(recorder: Recorder, query: str = "pool=2") -> AsyncIterator[MssqlSession]:
    """A session of the namespace 7."""
    address = parse(f"mssql+pytds://ann:s3cr3t@localhost/jobs?{query}")
    opened = MssqlSession(Database(address, Connecting(address, recorder)), NS, Listeners(), Waiters())
    try:
        yield opened
    finally:
        await opened.close()


def row(job: JobRecord, **more: Any) -> Row:
    """The job as a view tells it."""
    told = {**{name: getattr(job, name) for name in JobRecord.__struct_fields__[:30]}, **more}
    told["state"] = CODES[job.state]
    told["tags"] = msgspec.json.encode(job.tags).decode() if job.tags else None
    flow = {
        name: more.get(name) for name in ("limit_key", "fair_key", "rank", "sequence", "halts", "after_any")
    }
    flow |= {name: more.get(name) for name in ("expires", "unmet", "gate", "place", "held")}
    flow["rank"] = more.get("rank", job.due)
    return (*(told[name] for name in JobRecord.__struct_fields__[:30]), *flow.values(), NS)

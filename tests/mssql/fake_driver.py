"""A driver without a server: it records what it is asked, and waits or fails where a test says so."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.driver import Connection, Fault, Row, Value


class FakeConnection(Connection):
    def __init__(self, driver: "FakeDriver", patience: float | None) -> None:
        self._driver = driver
        self.patience = patience
        self.thread = threading.get_ident()
        self.sent: list[str] = []
        self.is_closed = False
        self.was_interrupted = threading.Event()
        self.dead = False

    @property
    def raw(self) -> Any:
        return self

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[list[Row]]:
        assert threading.get_ident() == self.thread, "a connection stays on its thread"
        assert not self.is_closed
        self.sent.append(sql)
        act = self._driver.acts.get(sql)
        return act(self) if act is not None else [[(sql,)]]

    def is_alive(self, rested: float) -> bool:
        return not self.dead

    def interrupt(self) -> None:
        self.was_interrupted.set()

    def close(self) -> None:
        assert threading.get_ident() == self.thread, "a connection stays on its thread"
        self.is_closed = True


class FakeDriver:
    """`acts` says what is done in place of a statement."""

    name = "fake"

    def __init__(self) -> None:
        self.made: list[FakeConnection] = []
        self.tokens: list[str | None] = []
        self.acts: dict[str, Callable[[FakeConnection], list[list[Row]]]] = {}
        self.fault: Fault | None = None

    def connect(self, address: Address, token: str | None, patience: float | None) -> FakeConnection:
        if self.fault is not None:
            raise self.fault
        self.tokens.append(token)
        self.made.append(FakeConnection(self, patience))
        return self.made[-1]

    def hold(self, sql: str) -> "Hold":
        """Makes the statement wait."""
        hold = Hold(sql)
        self.acts[sql] = hold
        return hold


class Hold:
    """A statement that ends when it is let go."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._gate = threading.Event()
        self._begun = threading.Semaphore(0)

    def __call__(self, connection: FakeConnection) -> list[list[Row]]:
        self._begun.release()
        assert self._gate.wait(20)
        return [[(self._sql,)]]

    def wait_begun(self, count: int = 1) -> None:
        for _ in range(count):
            assert self._begun.acquire(timeout=20)

    def let_go(self) -> None:
        self._gate.set()

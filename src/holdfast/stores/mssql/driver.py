"""What is asked of a driver for SQL Server. Each has a module of its own, and nobody else knows it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from holdfast.stores.mssql.address import Address

Value: TypeAlias = str | int | float | bool | bytes | None
"""What a parameter may be: nvarchar(max), int or bigint, float, bit, varbinary(max), NULL."""

Row: TypeAlias = tuple[Any, ...]

APPLICATION: Final = "holdfast"

SHARE_FOR_LOCKS: Final = 0.75
"""Of the time that an answer may take, how much may go by until a lock is had."""

_SETTINGS = (
    "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON; "
    "SET NUMERIC_ROUNDABORT OFF; SET LANGUAGE us_english; SET XACT_ABORT ON; SET NOCOUNT ON; "
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
)
_PARTS = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)
"""Where a ? may stand in T-SQL, and the marks of parameters among them."""


class Fault(Exception):
    """What a driver says was wrong.

    `number` is the server's, where the driver tells it, and `state` the SQLSTATE or the driver's words for
    it. `is_lost` says that there was no word from the server. `sent` says that a statement had perhaps gone
    out, so that it may have been done.
    """

    def __init__(
        self,
        text: str,
        *,
        number: int | None = None,
        state: str = "",
        is_lost: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.number = number
        self.state = state
        self.is_lost = is_lost
        self.sent = sent


class Connection(ABC):
    """A connection in autocommit mode, used by one thread at a time. What it raises is a Fault."""

    @property
    @abstractmethod
    def raw(self) -> Any:
        """The driver's own connection."""

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[list[Row]]:
        """Sends one batch, with ? for each parameter, and gives the rows of each of its result sets."""

    @abstractmethod
    def is_alive(self, rested: float) -> bool:
        """Whether it can be used after so many seconds of rest; cheap."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ends what is under way, if the driver can, and the connection too. Another thread calls it."""

    @abstractmethod
    def close(self) -> None:
        """Never raises."""

    def prepare(self, patience: float | None) -> None:
        """Gives the session the settings that statements rely on."""
        self.execute(settings(patience))

    def begin(self) -> None:
        self.execute("BEGIN TRANSACTION")

    def commit(self) -> None:
        self.execute("COMMIT TRANSACTION")

    def rollback(self) -> None:
        """Ends the transaction, if one is open."""
        self.execute("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")


class Driver(Protocol):
    """Opens connections."""

    name: str

    def connect(self, address: Address, token: str | None, patience: float | None) -> Connection:
        """Signs in with the token, or with the user and password of the address if there is none.

        `patience` is how many seconds an answer is waited for, None for ever; the sign-in always has the
        address's.
        """
        ...


def settings(patience: float | None) -> str:
    """What a session is set to.

    A lock is waited for less long than an answer, so that the server says that nothing was done before we
    must guess. Filtered indexes need the ANSI settings; messages are read in English.
    """
    wait = -1 if patience is None else int(patience * 1000 * SHARE_FOR_LOCKS)
    return f"{_SETTINGS} SET LOCK_TIMEOUT {wait};"


@lru_cache(maxsize=512)
def marked(sql: str, nulls: frozenset[int], mark: str) -> str:
    """The SQL with the driver's mark at each parameter, and NULL at those whose places are named.

    An untyped NULL fits every type, while a parameter has one. `mark` %s asks for % to be written twice.
    """
    place = -1

    def replaced(found: re.Match[str]) -> str:
        nonlocal place
        if found[0] != "?":
            return found[0]
        place += 1
        return "NULL" if place in nulls else "\0"

    text = _PARTS.sub(replaced, sql)
    if mark == "%s":
        text = text.replace("%", "%%")
    return text.replace("\0", mark)


def bound(sql: str, parameters: Sequence[Value], mark: str) -> tuple[str, list[str | float | bytes]]:
    """The SQL for the driver, and the parameters that are left for it."""
    nulls = frozenset(place for place, value in enumerate(parameters) if value is None)
    kept = [value for value in parameters if value is not None]
    return marked(sql, nulls, mark), kept

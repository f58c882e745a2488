"""A server of ours that real drivers sign in to: it speaks TDS, and says what a test tells it to.

It knows no SQL. A statement that nothing was scripted for is answered "done".
"""

import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.mssql import tds_words as tds
from tests.mssql.tds_line import Gone, Line
from tests.mssql.tds_words import Asked, Login

ENCRYPTED, NOT_ENCRYPTED, MUST_BE_ENCRYPTED = b"\x01", b"\x02", b"\x03"


@dataclass(frozen=True)
class Rows:
    """One result set."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Failure:
    """An error of the server."""

    number: int
    text: str
    severity: int = 16


@dataclass(frozen=True)
class Drop:
    """The connection is cut: before a word was said, or within the answer given."""

    within: Rows | None = None


@dataclass(frozen=True)
class Silence:
    """No answer, until the client has gone; with `heeds`, it at least stops when asked to."""

    heeds: bool = False


@dataclass(frozen=True)
class Held:
    """An answer that is given when the gate opens."""

    gate: threading.Event
    answer: Rows


Answer: TypeAlias = Rows | Failure | Drop | Silence | Held | Sequence[Rows | Failure]


class Peer:
    """Answers on loopback until closed. `asked` and `logins` tell what it heard."""

    host = "127.0.0.1"

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.logins: list[Login] = []
        self.asked: list[Asked] = []
        self._context = context
        self._scripts: list[tuple[str, deque[Answer]]] = []
        self._refusals: deque[Answer] = deque()
        self._guard = threading.Condition()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((self.host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._begin(self._listen)

    def on(self, part: str, *answers: Answer) -> None:
        """Answers the next statements that have this part in them so, one after the other."""
        self._scripts.append((part, deque(answers)))

    def refuse(self, *answers: Answer) -> None:
        """Answers the next sign-ins so."""
        self._refusals.extend(answers)

    def heard(self, part: str) -> list[Asked]:
        """The statements so far that have this part in them."""
        with self._guard:
            return [asked for asked in self.asked if part in asked.sql]

    def wait_for(self, part: str, count: int = 1) -> None:
        """Blocks until so many statements with this part have come."""
        with self._guard:
            came = self._guard.wait_for(lambda: sum(part in asked.sql for asked in self.asked) >= count, 20)
        assert came, f"{part!r} did not come {count} times"

    def wait_for_none(self) -> None:
        """Blocks until every client has gone."""
        with self._guard:
            assert self._guard.wait_for(lambda: not self._open, 20), "somebody is still connected"

    @property
    def clients(self) -> int:
        return len(self._open)

    def drop_all(self) -> None:
        """Cuts every connection."""
        for client in list(self._open):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def stop_listening(self) -> None:
        """Refuses who comes from now on."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        self.stop_listening()
        self.drop_all()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _begin(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._guard:
                self._open.add(client)
            self._begin(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            self._talk(Line(client))
        except (Gone, OSError):
            pass  # how every talk ends
        finally:
            client.close()
            with self._guard:
                self._open.discard(client)
                self._guard.notify_all()

    def _talk(self, line: Line) -> None:
        self._greet(line)
        prepared: dict[int, Asked] = {}
        while True:
            kind, body = line.read()
            if kind == tds.ATTENTION:
                line.say(tds.done(tds.CANCELLED))
                continue
            asked = tds.rpc(body, prepared) if kind == tds.RPC else tds.batch(body)
            answer = self._answer(asked.sql)
            with self._guard:
                self.asked.append(asked)
                self._guard.notify_all()
            self._say(line, answer, asked if kind == tds.RPC else None)

    def _greet(self, line: Line) -> None:
        _, body = line.read()
        asked = tds.options(body)
        offered = ENCRYPTED if asked[1] != NOT_ENCRYPTED else MUST_BE_ENCRYPTED
        given = {0: b"\x10\x00\x03\xe8\x00\x00", 1: NOT_ENCRYPTED if self._context is None else offered}
        given |= {2: b"\x00", 3: b"", 4: b"\x00"}
        if 6 in asked:
            given[6] = b"\x01"
        line.say(tds.prelogin_reply(given))
        if self._context is not None:
            line.encrypt(self._context)
        _, body = line.read()
        login = tds.login(body)
        with self._guard:
            self.logins.append(login)
            refusal = self._refusals.popleft() if self._refusals else None
        if refusal is not None:
            self._say(line, refusal, None)
            raise Gone
        line.say(tds.welcome(login.database, with_token=login.token is not None))

    def _answer(self, sql: str) -> Answer:
        for part, answers in self._scripts:
            if part in sql and answers:
                return answers.popleft()
        return ()

    def _say(self, line: Line, answer: Answer, call: Asked | None) -> None:
        if isinstance(answer, Silence):
            while True:
                kind, _ = line.read()
                if answer.heeds and kind == tds.ATTENTION:
                    line.say(tds.done(tds.CANCELLED))
                    return
        if isinstance(answer, Drop):
            if answer.within is not None:
                line.say_half(tds.row_set(answer.within.columns, answer.within.rows))
            raise Gone
        if isinstance(answer, Held):
            assert answer.gate.wait(20)
            answer = answer.answer
        line.say(_spoken([answer] if isinstance(answer, Rows | Failure) else answer, call))


def _spoken(parts: Sequence[Rows | Failure], call: Asked | None) -> bytes:
    said, has_failed = b"", False
    for part in parts:
        if isinstance(part, Rows):
            said += tds.row_set(part.columns, part.rows)
            said += tds.done(tds.MORE | tds.COUNT, word=0xFD if call is None else 0xFF, count=len(part.rows))
        else:
            said += tds.error(part.number, part.text, part.severity)
            has_failed = True
    status = tds.ERROR if has_failed else 0
    if call is None:
        return said + tds.done(status)
    return said + b"\x79\x00\x00\x00\x00" + tds.handle_of(call) + tds.done(status, word=0xFE)


@contextmanager
def peer(context: ssl.SSLContext | None = None) -> Iterator[Peer]:
    made = Peer(context)
    try:
        yield made
    finally:
        made.close()

"""A PgBouncer with few sessions, so that transactions of one client really run in several."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.servers.bouncer import Bouncer
from tests.servers.run import Run

OFF = "&prepared=off&notify=off"


class Pooled:
    """The database of a URL, through a pool of sessions."""

    def __init__(self, bouncer: Bouncer, sessions: int) -> None:
        self.bouncer = bouncer
        self.administer(f"SET default_pool_size = {sessions}")

    def url(self, schema: str, options: str = OFF) -> str:
        return f"{self.bouncer.url}?schema={schema}{options}"

    def sessions(self) -> int:
        """How many sessions of the server the pool has for us."""
        return len(self.administer("SHOW SERVERS"))

    def administer(self, command: str) -> list[Any]:
        url = urlsplit(self.bouncer.url)._replace(path="/pgbouncer").geturl()
        with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
            cursor = connection.execute(command)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def pooled(servers: Run, url: str, sessions: int) -> Iterator[Pooled]:
    bouncer = Bouncer(servers, url)
    try:
        yield Pooled(bouncer, sessions)
    finally:
        bouncer.remove()

"""Statements and databases, for code that has no event loop or must not use its own."""

import asyncio
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg


def execute(url: str, sql: str, *arguments: object) -> list[Any]:
    """Runs one statement in a session of its own, outside of any transaction block; its rows."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _execute(url, sql, arguments)).result()


async def _execute(url: str, sql: str, arguments: tuple[object, ...]) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(sql, *arguments))
    finally:
        await connection.close()


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """The URL of an empty database on that server, dropped afterwards whoever is still in it."""
    name = f"holdfast_test_{secrets.token_hex(6)}"
    execute(server, f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        execute(server, f"DROP DATABASE {name} WITH (FORCE)")

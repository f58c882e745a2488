"""Contends for a lock, and writes to a table that remembers the newest token.

`contend URL` takes it again and again; `hold URL` takes it once, and writes when it is let.
"""

import asyncio
import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from holdfast import Grant, Holdfast, LockLost
from holdfast.fencing import StaleToken, check_written

NAME = "account:ann"
TTL = 0.6
RESOURCE = Path("resource.db")
SCHEMA = """
    CREATE TABLE account (id TEXT PRIMARY KEY, fence INTEGER NOT NULL);
    CREATE TABLE written (place INTEGER PRIMARY KEY, token INTEGER, word TEXT, pid INTEGER);
    CREATE TABLE refused (token INTEGER, word TEXT, pid INTEGER);
    CREATE TABLE given_up (token INTEGER);
    INSERT INTO account VALUES ('ann', 0);
"""


def say(word: str) -> None:
    print(word, flush=True)  # noqa: T201


def write(token: int, word: str, path: Path = RESOURCE) -> None:
    """Writes if no newer token has been here; StaleToken if one has."""
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        changed = connection.execute(
            "UPDATE account SET fence = ? WHERE id = 'ann' AND fence <= ?", (token, token)
        ).rowcount
        table = "written (token, word, pid)" if changed else "refused"
        connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (token, word, os.getpid()))
        connection.execute("COMMIT")
    check_written(changed, token)


def note(token: int) -> None:
    """Says that the lock will be given back though the work is not done."""
    with closing(sqlite3.connect(RESOURCE, timeout=30, isolation_level=None)) as connection:
        connection.execute("INSERT INTO given_up VALUES (?)", (token,))


async def work(grant: Grant, draw: random.Random) -> None:
    try:
        write(grant.token, "enter")
        if draw.random() < 0.2:
            time.sleep(draw.uniform(0, 2 * TTL))  # noqa: ASYNC251  # blocks on purpose: it keeps its lock
        else:
            await asyncio.sleep(draw.uniform(0, 0.02))
        write(grant.token, "leave")
    except (asyncio.CancelledError, StaleToken):
        note(grant.token)
        raise


async def contend(app: Holdfast, draw: random.Random) -> None:
    while True:
        try:
            async with app.lock(NAME, ttl=TTL) as grant:
                await work(grant, draw)
        except (LockLost, StaleToken) as error:
            say(type(error).__name__)


async def contend_all(url: str) -> None:
    draw = random.Random(os.getpid())
    async with Holdfast(url) as app:
        say("ready")
        await asyncio.gather(*(contend(app, draw) for _ in range(3)))


def hold(url: str) -> None:
    with Holdfast(url) as app:
        try:
            with app.sync_lock(NAME, ttl=TTL) as grant:
                write(grant.token, "enter")
                say("held")
                while not Path("go").exists():
                    time.sleep(0.01)  # blocks on purpose: this holder has no loop
                try:
                    write(grant.token, "late")
                except StaleToken:
                    say("refused")
        except LockLost:
            say("lost")


if __name__ == "__main__":
    if sys.argv[1] == "contend":
        asyncio.run(contend_all(sys.argv[2]))
    else:
        hold(sys.argv[2])

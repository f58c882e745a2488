"""How a command reaches the store: the options that name it, and the application opened on it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from holdfast.app import Holdfast
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.output import warn
from holdfast.engine.client import Page
from holdfast.model.job import Job
from holdfast.model.names import known_id
from holdfast.model.partition import store_urls
from holdfast.stores.sqlite.address import parse

F = TypeVar("F", bound=Callable[..., Any])

_HIGHEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_ID_START = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")
reveal = click.option("--reveal", is_flag=True, help="Show secrets, too, instead of ***.")


def store_options(command: F) -> F:
    """Adds `--store` and `--namespace`; without them the settings decide."""
    store = click.option("--store", metavar="URL", help="The store, such as sqlite:///jobs.db.")
    namespace = click.option("--namespace", metavar="NAME", help="The namespace.")
    return store(namespace(command))


@asynccontextmanager
async def opened(
    store: str | None, namespace: str | None, *, may_make: bool = False
) -> AsyncGenerator[Holdfast]:
    """An application without tasks, open on the store that was named or is configured.

    A SQLite file that is not there is only made with `may_make`: in it there is nothing to see or to change.
    Partitions that do not answer are left out of what is shown, and named.
    """
    app = Holdfast(store, namespace=namespace)
    if not may_make:
        for url in store_urls(app.settings.store):
            check_file(url)
    async with app:
        with app.partitions.tolerating() as missing:
            yield app
        for error in missing.values():
            warn(f"{error}; what it has is left out")


def check_file(url: str) -> None:
    """Refuses a SQLite file that is not there."""
    if url.startswith("sqlite:") and not (path := parse(url).path).exists():
        raise Failure(
            f"there is no file {path}; the first job or worker makes it, or 'holdfast migrate'. "
            "Another store is named with --store"
        )


async def resolve(app: Holdfast, text: str) -> Job[Any]:
    """The job of that id, or of the one id that starts like that."""
    start = text.strip().lower()
    if not _ID_START.fullmatch(start):
        raise WrongUse(f"{text!r} is neither a job id nor at least four characters of the start of one.")
    # Pages go by id, highest first: below the highest possible id with this start come all that have it.
    highest = known_id(start + _HIGHEST[len(start) :])
    page = Page() if highest is None else await app.find(cursor=highest, limit=2)
    exact = await app.get(start) if len(start) == len(_HIGHEST) else None
    matches = [job for job in page if job.id.startswith(start)] if exact is None else [exact]
    if not matches:
        raise Failure(f"there is no job {text}")
    if len(matches) > 1:
        raise WrongUse(f"several job ids start with {text!r}; give more of it.")
    return matches[0]

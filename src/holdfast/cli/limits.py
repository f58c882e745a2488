"""`holdfast limits`: what may run at once, how much may begin, and which tasks and keys are paused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import click

from holdfast.cli.access import as_json, opened, store_options
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.output import say, show_json, show_table
from holdfast.cli.run import run
from holdfast.model.flow import Scope
from holdfast.model.limits import LimitInfo, said

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS = ("scope", "name", "allows", "weight", "running", "waiting", "is", "set")


class Target(TypedDict):
    """What a limit is about, as it was given."""

    queue: str | None
    task: str | None
    key: str | None
    each_key: bool


def _target_options(command: F) -> F:
    for option in (
        click.option("--each-key", is_flag=True, help="With --task: each limit key of its jobs by itself."),
        click.option("--key", metavar="KEY", help="The jobs with this limit key."),
        click.option("--task", metavar="NAME", help="The jobs of this task."),
        click.option("--queue", metavar="NAME", help="The jobs of this queue."),
    ):
        command = option(command)
    return command


@click.group()
def limits() -> None:
    """See and set what may run at once, and how much may begin in a time."""


@limits.command("list")
@as_json
@store_options
def list_limits(store: str | None, namespace: str | None, as_json: bool) -> None:
    """List limits, with the jobs that run and wait under each."""

    async def work() -> None:
        async with opened(store, namespace) as app:
            found = await app.limits.list()
        if as_json:
            show_json({"limits": found})
            return
        show_table(COLUMNS, map(_row, found), nothing="No limits.")

    run(work())


@limits.command("set")
@_target_options
@click.option("--concurrency", type=int, metavar="N", help="So many may run at once.")
@click.option("--rate", type=int, metavar="N", help="So many may begin in each period.")
@click.option("--per", type=float, metavar="SECONDS", help="The period of the rate; 1 by default.")
@click.option("--burst", type=int, metavar="N", help="So many may begin at once after a pause; 1 by default.")
@click.option("--weight", type=float, metavar="W", help="The share of a queue, or of a fair key; 1 if none.")
@as_json
@store_options
def set_limit(
    store: str | None,
    namespace: str | None,
    queue: str | None,
    task: str | None,
    key: str | None,
    each_key: bool,
    concurrency: int | None,
    rate: int | None,
    per: float | None,
    burst: int | None,
    weight: float | None,
    as_json: bool,
) -> None:
    """Set a limit in the place of the one that stands, also of one that is written in code.

    A weight alone leaves the rest as it is.
    """
    target = _checked(queue, task, key, each_key)
    if rate is None and (per is not None or burst is not None):
        raise WrongUse("--per and --burst need --rate.")

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            await app.limits.set(
                **target,
                concurrency=concurrency,
                rate=rate,
                per=1.0 if per is None else per,
                burst=1 if burst is None else burst,
                weight=weight,
            )
            known = _found(await app.limits.list(), target)
        if as_json:
            show_json({"limit": known})
        elif known is not None:
            say(f"{_named(target)} {_sentence(known)}.")

    run(work())


@limits.command()
@_target_options
@store_options
def remove(
    store: str | None,
    namespace: str | None,
    queue: str | None,
    task: str | None,
    key: str | None,
    each_key: bool,
) -> None:
    """Remove a limit. One that is written in code comes back when a worker starts."""
    target = _checked(queue, task, key, each_key)

    async def work() -> None:
        async with opened(store, namespace) as app:
            if _found(await app.limits.list(), target) is None:
                raise Failure(f"there is no limit on {_named(target, first=False)}")
            await app.limits.remove(**target)
        say(f"{_named(target)} has no limit.")

    run(work())


@limits.command()
@click.option("--key", metavar="KEY", help="The jobs with this limit key.")
@click.option("--task", metavar="NAME", help="The jobs of this task.")
@store_options
def pause(store: str | None, namespace: str | None, task: str | None, key: str | None) -> None:
    """Let no job of a task, or of a key, begin until it is resumed. What runs goes on.

    A queue is paused by 'holdfast queues pause'.
    """
    _set_paused(store, namespace, task, key, paused=True)


@limits.command()
@click.option("--key", metavar="KEY", help="The jobs with this limit key.")
@click.option("--task", metavar="NAME", help="The jobs of this task.")
@store_options
def resume(store: str | None, namespace: str | None, task: str | None, key: str | None) -> None:
    """Let jobs of a paused task, or of a paused key, begin again."""
    _set_paused(store, namespace, task, key, paused=False)


def _set_paused(
    store: str | None, namespace: str | None, task: str | None, key: str | None, *, paused: bool
) -> None:
    if (task is None) == (key is None):
        raise WrongUse("give one of --task and --key; for a queue there is 'holdfast queues pause'.")
    target: Target = {"queue": None, "task": task, "key": key, "each_key": False}

    async def work() -> None:
        async with opened(store, namespace, may_make=True) as app:
            await (app.limits.pause if paused else app.limits.resume)(task=task, key=key)
        say(f"{_named(target)} is {'paused' if paused else 'open'}.")

    run(work())


def _checked(queue: str | None, task: str | None, key: str | None, each_key: bool) -> Target:
    if sum(name is not None for name in (queue, task, key)) != 1:
        raise WrongUse("give one of --queue, --task and --key.")
    if each_key and task is None:
        raise WrongUse("--each-key needs --task.")
    return {"queue": queue, "task": task, "key": key, "each_key": each_key}


def _scope(target: Target) -> tuple[Scope, str]:
    if target["queue"] is not None:
        return Scope.QUEUE, target["queue"]
    if target["task"] is not None:
        return (Scope.EACH_KEY if target["each_key"] else Scope.TASK), target["task"]
    return Scope.KEY, str(target["key"])


def _named(target: Target, *, first: bool = True) -> str:
    scope, name = _scope(target)
    words = f"each key of task {name}" if scope is Scope.EACH_KEY else f"{scope} {name}"
    return words[0].upper() + words[1:] if first else words


def _found(known: Sequence[LimitInfo], target: Target) -> LimitInfo | None:
    return next((each for each in known if (each.scope, each.name) == _scope(target)), None)


def _sentence(limit: LimitInfo) -> str:
    allows = _allows(limit)
    parts = [f"may have {allows}"] if allows else []
    if limit.weight != 1.0 or not allows:
        parts.append(f"has weight {limit.weight:g}")
    return ", and ".join(parts)


def _allows(limit: LimitInfo) -> str:
    return said(limit.concurrency, limit.rate, limit.per, limit.burst)


def _row(limit: LimitInfo) -> Sequence[object]:
    return (
        "each key of" if limit.scope is Scope.EACH_KEY else limit.scope.value,
        limit.name,
        _allows(limit) or "all",
        f"{limit.weight:g}" if limit.scope in (Scope.QUEUE, Scope.KEY) else None,
        limit.running,
        limit.waiting,
        "paused" if limit.paused else "open",
        "in code" if limit.declared else "by hand",
    )

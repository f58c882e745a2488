"""`holdfast enqueue`: stores one job."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click
import msgspec

from holdfast.app import Holdfast
from holdfast.cli.access import as_json
from holdfast.cli.errors import WrongUse
from holdfast.cli.jobs import job_document
from holdfast.cli.load import load_app
from holdfast.cli.output import say, show_json
from holdfast.cli.run import run
from holdfast.model.errors import UnknownTask
from holdfast.model.partition import is_in_memory
from holdfast.task import Task


@click.command()
@click.argument("app", metavar="MODULE:APP")
@click.argument("task")
@click.argument("arguments", metavar="[JSON]", default="{}")
@click.option("--queue", help="Another queue than the task's.")
@click.option("--delay", type=float, metavar="S", help="Seconds until the job is due.")
@click.option("--key", help="Idempotency key: the same key gives the same job.")
@click.option("--priority", type=int, help="Lower numbers go first.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--store", metavar="URL", help="Another store than the application's own.")
@click.option("--namespace", metavar="NAME", help="Another namespace than the application's own.")
@as_json
def enqueue(
    app: str,
    task: str,
    arguments: str,
    tags: tuple[str, ...],
    store: str | None,
    namespace: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Store a job of a task of an application, and print its id.

    JSON gives the task's arguments: an object by name, an array by position.
    """
    args, kwargs = parse_arguments(arguments)
    application = load_app(app).configured(store=store, namespace=namespace)
    call = find_task(application, task).using(tags=tags or None, **options).call(*args, **kwargs)
    if is_in_memory(application.settings.store):
        raise WrongUse("a job in memory:// would be gone when this command ends; name another with --store.")

    async def work() -> None:
        async with application:
            [job] = await application.enqueue_many([call])
        if as_json:
            show_json({"job": job_document(job)})
        else:
            say(job.id)

    run(work())


def parse_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call by position and by name, from JSON."""
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise WrongUse(f"the arguments are not JSON: {error}.") from None
    if isinstance(value, dict):
        return [], {**value}
    if isinstance(value, list):
        return [*value], {}
    raise WrongUse("the arguments must be a JSON object (by name) or an array (by position).")


def find_task(app: Holdfast, name: str) -> Task[..., Any]:
    """The task of that name; UnknownTask names one that is spelt alike."""
    found = app.tasks.get(name)
    if found is None:
        close = get_close_matches(name, app.tasks, n=1)
        known = (
            f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(app.tasks)) or 'none'}"
        )
        raise UnknownTask(f"the application has no task {name!r}; {known}")
    return found

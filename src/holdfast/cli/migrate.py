"""`holdfast migrate`: makes or upgrades the store's tables."""

from __future__ import annotations

import click

from holdfast.cli.access import as_json, store_options
from holdfast.cli.errors import Failure
from holdfast.cli.output import say, show_json
from holdfast.cli.run import run
from holdfast.config import load_settings
from holdfast.model.masking import mask_url
from holdfast.store import Roles, Store
from holdfast.stores import open_store


@click.command()
@click.option("--print-sql", is_flag=True, help="Print all steps as SQL and change nothing.")
@click.option("--print-roles", is_flag=True, help="Print roles and rights as SQL and change nothing.")
@click.option("--role-prefix", default="holdfast", show_default=True, help="What their names begin with.")
@as_json
@store_options
def migrate(
    store: str | None,
    namespace: str | None,
    as_json: bool,
    print_sql: bool,
    print_roles: bool,
    role_prefix: str,
) -> None:
    """Bring the store's schema up to date. Safe to run again, and by several at once."""
    settings = load_settings({"store": store, "namespace": namespace})
    opened = open_store(settings.store, auto_migrate=False)
    if print_sql or print_roles:
        parts = [_sql(opened, settings.store)] if print_sql else []
        parts += [_roles(opened, settings.store, role_prefix)] if print_roles else []
        click.echo("\n".join(parts), nl=False)
        return
    steps = run(_apply(opened))
    if as_json:
        show_json({"applied": steps})
    elif steps:
        for step in steps:
            say(f"applied {step}")
    else:
        say("Nothing to do: the schema is up to date.")


def _sql(store: Store, url: str) -> str:
    if store.migrations is None:
        raise Failure(f"{mask_url(url)} has no schema")
    return store.migrations.as_sql()


def _roles(store: Store, url: str, prefix: str) -> str:
    if not isinstance(store.migrations, Roles):
        raise Failure(f"{mask_url(url)} has no roles: whoever can open it may do everything")
    return store.migrations.roles_as_sql(prefix)


async def _apply(store: Store) -> list[str]:
    try:
        return [] if store.migrations is None else await store.migrations.apply()
    finally:
        await store.close()

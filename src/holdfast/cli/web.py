"""`holdfast web` and `holdfast token`: the HTTP interface with the dashboard, and who may enter."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.app import Holdfast
from holdfast.cli.access import check_files, store_options
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.load import load_app
from holdfast.cli.output import say, warn
from holdfast.cli.worker import leaving_on_signals
from holdfast.telemetry import logs

_MISSING = "the dashboard needs more packages; install them with: pip install 'holdfast[web]'"


@click.command()
@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any.")
@click.option("--token", envvar="HOLDFAST_WEB_TOKEN", metavar="TEXT", help="A token with the role admin.")
@click.option(
    "--tokens-file", type=click.Path(path_type=Path), help="Tokens by name and role; see 'holdfast token'."
)
@click.option(
    "--allowed-host", "allowed", multiple=True, metavar="NAME", help="A name of this server; may be repeated."
)
@click.option("--proxy", metavar="ADDRESS", help="A proxy whose X-Forwarded-For and -Proto are believed.")
@click.option("--tls-cert", type=click.Path(), help="A certificate, for HTTPS.")
@click.option("--tls-key", type=click.Path(), help="Its key.")
@store_options
def web(
    app: str | None,
    store: str | None,
    namespace: str | None,
    host: str,
    port: int,
    token: str | None,
    tokens_file: Path | None,
    allowed: tuple[str, ...],
    proxy: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Serve the dashboard and the HTTP interface.

    With MODULE:APP jobs can be enqueued by the signatures of its tasks; without, whatever the store has can
    be seen and steered. On this machine's own address it makes a token for this run and prints the link; on
    any other it needs --token or --tokens-file.
    """
    try:
        from holdfast.web.server import Entrance, serve  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise Failure(_MISSING) from None
    if (tls_cert is None) != (tls_key is None):
        raise WrongUse("--tls-cert and --tls-key go together.")
    with leaving_on_signals():
        made = Holdfast() if app is None else load_app(app)
        application = made.configured(store=store, namespace=namespace)
        logs.configure(application.settings)
        if app is None:
            check_files(application)
        entrance = Entrance.of(host, token=token, file=_read(tokens_file), allowed=allowed)
        for line in entrance.warnings(has_tls=tls_cert is not None or proxy is not None):
            warn(line)
        try:
            listening = entrance.listen(port)
        except OSError as error:
            raise Failure(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
        with listening:
            serve(
                application,
                entrance,
                listening,
                tls=None if tls_cert is None or tls_key is None else (tls_cert, tls_key),
                proxy=proxy,
                ready=lambda: say(entrance.url(listening, is_https=tls_cert is not None)),
            )


@click.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["read", "operate", "admin"]),
    default="read",
    show_default=True,
    help="What it may do.",
)
def token(name: str, role: str) -> None:
    """Make a token for 'holdfast web --tokens-file'.

    Prints the token, which is kept nowhere, and the line for the file, which has only its hash.
    """
    from holdfast.web.access import Role, Token, new_secret  # noqa: PLC0415  needed by few commands

    secret = new_secret()
    say(secret)
    say(Token.of(name, Role(role), secret).line)


def _read(path: Path | None) -> tuple[str, str] | None:
    if path is None:
        return None
    try:
        return str(path), path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"the file of tokens {path} cannot be read: {error}") from None

"""Puts the HTTP face of an application together."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from holdfast.app import Holdfast
from holdfast.model.errors import ConfigurationError, HoldfastError
from holdfast.telemetry.metrics import Metrics
from holdfast.web.access import Token, Tokens
from holdfast.web.application import Web
from holdfast.web.link import Link
from holdfast.web.openapi import make_openapi
from holdfast.web.origin import Hosts
from holdfast.web.sampler import Sampler
from holdfast.web.site import Bounds, Identify, Site
from holdfast.web.table import TABLE


def create(
    app: Holdfast,
    *,
    tokens: Iterable[Token] = (),
    identify: Identify | None = None,
    hosts: Hosts | None = None,
    bounds: Bounds | None = None,
) -> Web:
    """An ASGI application with the HTTP interface of `app` and the dashboard; mount it anywhere.

    Who may enter is told by `identify`, which gets each request and gives an `Identity(user, role)` or None,
    or by `tokens`, or by both. With `hosts`, requests for other names are refused; a host application may do
    that itself.
    """
    known = Tokens(tokens)
    if not known and identify is None:
        raise ConfigurationError(
            "give tokens or identify; without either nobody could enter, and everybody must not"
        )
    with suppress(HoldfastError):
        # Its libraries are loaded now, so that the first request need not wait for that.
        _ = app.store
    limits = bounds or Bounds()
    link = Link(app, patience=min(5.0, limits.budget_seconds / 2))
    return Web(
        Site(
            app=app,
            tokens=known,
            identify=identify,
            hosts=hosts,
            bounds=limits,
            link=link,
            sampler=Sampler(app, link),
            metrics=Metrics(app),
            openapi=make_openapi(TABLE.routes),
        )
    )

"""Signing in and out, and who one is."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast import __version__
from holdfast.web.access import Role
from holdfast.web.entry import Entry, count_try, find_entry, remote_of, unauthorized
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes
from holdfast.web.sessions import COOKIE

routes = Routes()


class SessionAnswer(msgspec.Struct, kw_only=True):
    """Who one is, and what one looks at. `csrf` goes into the header X-Holdfast-CSRF of each change."""

    user: str
    role: Role
    namespace: str
    version: str
    store: str
    csrf: str | None


class SignInBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A token."""

    token: Annotated[str, Meta(min_length=1, max_length=1_000)]


@routes.add("GET", "/session", Role.READ)
async def get_session(incoming: Incoming[None, None]) -> SessionAnswer:
    """Tells who one is, in which role, and what server this is."""
    entry = await find_entry(incoming.site, incoming.request)
    return _answer(incoming, entry or Entry(incoming.identity))


@routes.add("POST", "/session", None)
async def sign_in(incoming: Incoming[None, SignInBody]) -> SessionAnswer:
    """Begins a session by a token: its cookie stands for the token from then on."""
    site, request = incoming.site, incoming.request
    if not site.tokens:
        raise Problem(404, "not_found", "one signs in where this is mounted")
    count_try(site, request)
    token = site.tokens.find(incoming.body.token)
    if token is None:
        raise unauthorized()
    site.sign_ins.forgive(remote_of(request))
    incoming.identity = token.identity
    cookie = site.sessions.begin(token.identity)
    incoming.headers["Set-Cookie"] = _cookie(incoming, cookie, "")
    return _answer(incoming, Entry(token.identity, session=site.sessions.find(cookie)))


@routes.add("DELETE", "/session", Role.READ, status=204)
async def sign_out(incoming: Incoming[None, None]) -> None:
    """Ends the session."""
    cookie = incoming.request.cookies.get(COOKIE)
    if cookie is not None:
        incoming.site.sessions.end(cookie)
    incoming.headers["Set-Cookie"] = _cookie(incoming, "", "; Max-Age=0")


def _cookie(incoming: Incoming[None, SignInBody] | Incoming[None, None], value: str, more: str) -> str:
    path = incoming.request.scope.get("root_path", "").rstrip("/") or "/"
    secure = "; Secure" if incoming.request.url.scheme == "https" else ""
    return f"{COOKIE}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}{more}"


def _answer(incoming: Incoming[None, SignInBody] | Incoming[None, None], entry: Entry) -> SessionAnswer:
    settings = incoming.app.settings
    return SessionAnswer(
        user=entry.identity.user,
        role=entry.identity.role,
        namespace=settings.namespace,
        version=__version__,
        store=settings.store.partition(":")[0],
        csrf=entry.csrf,
    )

"""Who asks: known by a token, a session, or the host application; and whether a page may change things."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass

from starlette.requests import Request

from holdfast.web.access import Identity
from holdfast.web.origin import check_origin
from holdfast.web.problem import Problem
from holdfast.web.sessions import COOKIE, CSRF_HEADER, Session
from holdfast.web.site import Site

HOST_PROOF = "mounted"
"""What pages send as proof where the host application knows who they are. Not a secret: another site's page
cannot send the header at all without asking first, and nobody ever answers that it may."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Somebody, and how it is known who that is. `session` is that of a cookie."""

    identity: Identity
    session: Session | None = None
    by_token: bool = False

    @property
    def csrf(self) -> str | None:
        """What a page of ours sends along with each change; None where no browser sends credentials."""
        if self.session is not None:
            return self.session.csrf
        return None if self.by_token else HOST_PROOF

    def check_change(self, request: Request, site: Site) -> None:
        """Refuses a change that a page of somebody else may have asked for in this one's name."""
        check_origin(request, site.hosts)
        given = request.headers.get(CSRF_HEADER)
        is_proved = given is not None if self.session is None else self.session.proves(given)
        if not self.by_token and not is_proved:
            raise Problem(
                403, "csrf", f"a change by a page needs the header {CSRF_HEADER} of GET /session", CSRF_HEADER
            )


def bearer_of(request: Request) -> str | None:
    """The token that a request brings; None if it brings none."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


async def find_entry(site: Site, request: Request) -> Entry | None:
    """Who asks; None for nobody. A wrong token is nobody, whatever else the request brings.

    What is sent by another scheme is meant for somebody else, such as a proxy.
    """
    secret = bearer_of(request)
    if secret is not None and site.tokens:
        token = site.tokens.find(secret)
        if token is not None:
            return Entry(token.identity, by_token=True)
        if site.identify is None:
            return None
    if site.identify is not None:
        found = site.identify(request)
        identity = await found if inspect.isawaitable(found) else found
        return None if identity is None else Entry(identity)
    session = site.sessions.find(request.cookies.get(COOKIE))
    return None if session is None else Entry(session.identity, session=session)


def remote_of(request: Request) -> str:
    """The address that tries are counted for."""
    return request.client.host if request.client else ""


def count_try(site: Site, request: Request) -> None:
    """Counts a try to get in; 429 if there were too many from that address."""
    wait = math.ceil(site.sign_ins.wait(remote_of(request)))
    if wait:
        message = f"too many tries; wait {wait} s"
        raise Problem(429, "too_many_tries", message, headers={"Retry-After": str(wait)})


def unauthorized() -> Problem:
    return Problem(
        401,
        "unauthorized",
        "sign in, or send a token as 'Authorization: Bearer …'",
        headers={"WWW-Authenticate": 'Bearer realm="holdfast"'},
    )

"""The ASGI application: from a request to its answer, one check after the other."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.model.errors import ConfigurationError, HoldfastError, SchemaMismatch, StoreError
from holdfast.telemetry.logs import log
from holdfast.web import audit
from holdfast.web.access import Identity, Role
from holdfast.web.entry import Entry, bearer_of, count_try, find_entry, unauthorized
from holdfast.web.headers import guarded
from holdfast.web.origin import check_origin, check_site, is_loopback
from holdfast.web.problem import JSON, Problem, as_problem
from holdfast.web.reading import read_body, read_query
from holdfast.web.routing import Incoming, Route, segments_of
from holdfast.web.site import Site
from holdfast.web.static_files import StaticFiles
from holdfast.web.table import TABLE

logger = logging.getLogger("holdfast.web")

_NOBODY = Identity("-", Role.READ)
_HEALTH = "/health/"
_FIRST_LOOK_SECONDS = 5.0
_NOBODYS_BODY_BYTES = 4_096


class Web:
    """Serves the HTTP interface of an application, and the dashboard, as ASGI.

    Run by a server of its own it opens and closes the application. Mounted into another application it opens
    it with the first request; give `lifespan` to that application, and it is closed as well.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.failure: HoldfastError | None = None
        self._static = StaticFiles()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """Opens the application for as long as the block lasts; a store that is away is tried again later."""
        try:
            await self.site.link.ensure()
        except SchemaMismatch:
            raise
        except StoreError:
            log(logger, logging.WARNING, "the store is away; requests are answered with 503 until it is back")
        else:
            await self.site.sampler.first(_FIRST_LOOK_SECONDS)
        self.site.sampler.start()
        try:
            yield
        finally:
            self.site.is_closing = True
            await self.site.sampler.stop()
            await self.site.link.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except HoldfastError as error:
            self.failure = error
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        request_id = secrets.token_hex(8)
        response = await _Visit(self.site, self._static, request, request_id).response()
        is_head = request.method == "HEAD"
        await response(scope, receive, guarded(send, request_id, is_head=is_head))


class _Visit:
    """One request on its way."""

    def __init__(self, site: Site, static: StaticFiles, request: Request, request_id: str) -> None:
        self._site = site
        self._static = static
        self._request = request
        self._id = request_id
        self._incoming: Incoming[Any, Any] | None = None
        self._entry: Entry | None = None
        self._route: Route | None = None
        self._path: dict[str, str] = {}

    async def response(self) -> Response:
        try:
            async with asyncio.timeout(self._site.bounds.budget_seconds):
                response = await self._answer()
        except Problem as problem:
            response = problem.response()
        except TimeoutError:
            response = self._over_budget().response()
        except HoldfastError as error:
            response = self._problem(error).response()
        except Exception as error:  # noqa: BLE001  a defect of ours must not end the connection unanswered
            response = self._defect(error).response()
        self._audit(response.status_code)
        return response

    async def _answer(self) -> Response:
        site, request = self._site, self._request
        segments = segments_of(request.scope)
        match = TABLE.match(segments)
        route = None
        if match is not None:
            route = match.methods.get("GET" if request.method == "HEAD" else request.method)
            self._route, self._path = route, match.path
        if site.hosts is not None:
            site.hosts.check(request)
        if request.method in ("GET", "HEAD"):
            page = self._static.find(request, segments)
            if page is not None:
                # Whoever opens the page asks for the overview next.
                site.sampler.start()
                return page
        check_site(request)
        self._entry = await find_entry(site, request)
        if self._entry is None and not self._is_for_nobody(route):
            if site.tokens and bearer_of(request) is not None:
                count_try(site, request)
            raise unauthorized()
        if match is None:
            raise Problem(404, "not_found", "there is nothing under this path")
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": match.allow})
        if route is None:
            raise Problem(405, "not_allowed", f"use {match.allow}", headers={"Allow": match.allow})
        return await self._run(route, match.path)

    def _is_for_nobody(self, route: Route | None) -> bool:
        """Whether one need not have signed in: to sign in, or to ask for health from this very machine."""
        if route is None or route.role is not None:
            return False
        client = self._request.client
        return not route.path.startswith(_HEALTH) or (client is not None and is_loopback(client.host))

    async def _run(self, route: Route, path: dict[str, str]) -> Response:
        site, request = self._site, self._request
        identity = _NOBODY if self._entry is None else self._entry.identity
        if route.role is not None and not identity.role.covers(route.role):
            raise Problem(403, "forbidden", f"this takes the role {route.role}; yours is {identity.role}")
        if route.changes and self._entry is not None and route.role is not None:
            self._entry.check_change(request, site)
        elif route.changes:
            check_origin(request, site.hosts)
        incoming = self._incoming = Incoming(
            site=site,
            request=request,
            identity=identity,
            path=path,
            query=read_query(request, route.query),
            body=await read_body(request, route.body, self._most_read(route)),
            status=route.status,
        )
        if not route.path.startswith(_HEALTH):
            await self._open()
        if route.streams and request.method == "HEAD":
            return Response(media_type=route.produces)
        answer = await route.handler(incoming)
        if route.changes and route.role is not None and route.role is not Role.READ:
            site.sampler.forget()
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=incoming.status, headers=incoming.headers)
        return Response(msgspec.json.encode(answer), incoming.status, incoming.headers, JSON)

    def _most_read(self, route: Route) -> int:
        """How long a body may be: of those who are nobody yet, as long as a token needs."""
        most = self._site.bounds.body_bytes
        return min(most, _NOBODYS_BODY_BYTES) if route.role is None else most

    async def _open(self) -> None:
        try:
            await self._site.link.ensure()
        except ConfigurationError as error:
            log(logger, logging.ERROR, "the application cannot be opened", error=str(error))
            raise Problem(503, "store_unavailable", "the store cannot be opened; the log says why") from None
        self._site.sampler.start()

    def _over_budget(self) -> Problem:
        seconds = self._site.bounds.budget_seconds
        message = f"it was not done within {seconds:g} s"
        if self._route is not None and self._route.changes:
            message += "; it may have been done nevertheless: look, or repeat it with the same key"
        return Problem(504, "over_budget", message)

    def _problem(self, error: HoldfastError) -> Problem:
        problem = as_problem(error)
        if problem is None:
            return self._defect(error)
        if problem.status >= 500:
            log(logger, logging.WARNING, "request failed", request=self._id, error=str(error))
        return problem

    def _defect(self, error: Exception) -> Problem:
        """All of it for those who can mend it, and nothing of it to who asked."""
        fields = {"request": self._id, "method": self._request.method}
        logger.error("a request failed for a reason of ours", exc_info=error, extra={"fields": fields})
        return Problem(500, "internal", f"this went wrong here; the log says how, under {self._id}")

    def _audit(self, status: int) -> None:
        route = self._route
        if route is None or not route.audited:
            return
        incoming, entry = self._incoming, self._entry
        known = _NOBODY if entry is None else entry.identity
        identity = known if incoming is None else incoming.identity
        client = self._request.client
        audit.record(
            "change" if route.changes else "look",
            user=identity.user,
            role=identity.role,
            action=route.name,
            touched=[*self._path.values(), *(() if incoming is None else incoming.touched)],
            status=status,
            remote="-" if client is None else client.host,
            request=self._id,
        )

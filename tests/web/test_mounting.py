"""Mounted into another application, under its own authentication."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast import Holdfast
from holdfast.model.errors import ConfigurationError
from holdfast.web import Identity, Role, Web, create
from holdfast.web.sampler import Watcher
from holdfast.web.sessions import CSRF_HEADER
from tests.web.serving import PATIENCE, TOKENS, Serving, bearer, serving
from tests.web.shop import make_shop

PREFIX = "/ops/jobs"


def identify(request: Request) -> Identity | None:
    user = request.headers.get("X-User")
    return None if user is None else Identity(user, Role.ADMIN if user == "root" else Role.READ)


def in_starlette(web: Web) -> ASGIApp:
    return Starlette(routes=[Mount(PREFIX, web)], lifespan=web.lifespan)


def in_fastapi(web: Web) -> ASGIApp:
    app = FastAPI()
    app.mount(PREFIX, web)
    return app


def in_fastapi_that_opens(web: Web) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with web.site.app:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/own")
    async def own() -> dict[str, int]:
        return {"jobs": (await web.site.app.stats()).scheduled}

    app.mount(PREFIX, web)
    return app


def test_the_page_is_enough_to_have_the_store_looked_at() -> None:
    web = create(make_shop(), identify=identify)
    with serving(in_fastapi(web), PREFIX) as server:
        assert web.site.sampler.overview_known is None
        assert server[None].get("/").status_code == 200

        async def wait_for_a_look() -> None:
            watcher = Watcher()
            web.site.sampler.watch(watcher)
            async with asyncio.timeout(PATIENCE):
                await watcher.news.wait()

        server.run(wait_for_a_look())


def test_the_first_request_need_not_wait_for_libraries() -> None:
    program = (
        "import sys; from holdfast import Holdfast; from holdfast.web import create;"
        "create(Holdfast('postgresql://127.0.0.1/jobs'), identify=print); assert 'asyncpg' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_a_store_that_cannot_be_named_so_is_told_by_answers() -> None:
    web = create(Holdfast("nowhere://"), tokens=TOKENS)
    with serving(in_fastapi(web), PREFIX) as server:
        answer = server.admin.get("/api/v1/stats")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")


@pytest.mark.parametrize("make", [in_starlette, in_fastapi, in_fastapi_that_opens])
def test_the_host_says_who_asks(make: object) -> None:
    web = create(make_shop(), identify=identify)
    with serving(make(web), PREFIX) as server:  # type: ignore[operator]
        client = server[None]
        assert client.get("/api/v1/stats").status_code == 401
        assert client.get("/metrics").status_code == 401
        read = client.get("/api/v1/session", headers={"X-User": "ann"}).json()
        assert (read["user"], read["role"]) == ("ann", "read")
        assert client.post("/api/v1/queues/q/pause", headers={"X-User": "ann"}).status_code == 403
        root = {"X-User": "root"}
        proof = client.get("/api/v1/session", headers=root).json()["csrf"]
        unproved = client.post("/api/v1/queues/q/pause", headers=root)
        assert (unproved.status_code, unproved.json()["error"]["code"]) == (403, "csrf")
        proved = client.post("/api/v1/queues/q/pause", headers={**root, CSRF_HEADER: proof})
        assert proved.json() == {"name": "q", "paused": True}
        foreign = {**root, CSRF_HEADER: proof, "Origin": "https://evil.example"}
        assert client.post("/api/v1/queues/q/pause", headers=foreign).status_code == 403
        assert client.get("/api/v1/queues/a%2Fb", headers=root).status_code == 404
        assert client.post("/api/v1/session", json={"token": "x"}).status_code == 404
        assert client.get("/api/v1/overview", headers=root).status_code == 200


def test_tokens_are_taken_beside_the_host_and_the_identity_may_be_awaited() -> None:
    async def slowly(request: Request) -> Identity | None:
        return identify(request)

    web = create(make_shop(), identify=slowly, tokens=TOKENS)
    with serving(in_starlette(web), PREFIX) as server:
        assert server[Role.READ].get("/api/v1/session").json()["user"] == "read"
        by_host = server[None].get("/api/v1/session", headers={"X-User": "ann"})
        assert by_host.json()["user"] == "ann"
        # A token of the host's own is none of ours.
        both = server[None].get("/api/v1/session", headers={"X-User": "ann", "Authorization": "Bearer other"})
        assert both.json()["user"] == "ann"
        assert server.admin.post("/api/v1/queues/q/pause").status_code == 200


def rooted(app: ASGIApp) -> ASGIApp:
    """The application as a server calls it that was told of a proxy's prefix."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": "/proxy"}, receive, send)

    return call


@pytest.mark.parametrize("make", [in_starlette, in_fastapi])
@pytest.mark.parametrize("prefix", [PREFIX, f"/proxy{PREFIX}"])
def test_a_proxy_may_have_taken_its_prefix_off_or_not(make: Callable[[Web], ASGIApp], prefix: str) -> None:
    web = create(make_shop(), tokens=TOKENS)
    with serving(rooted(make(web)), prefix) as server:
        assert server.admin.get("/api/v1/stats").status_code == 200
        assert server.admin.get("/api/v1/workers/a%2Fb").status_code == 404
        assert server[None].get("/").headers["Content-Type"].startswith("text/html")
        assert server.admin.get("/nothing").status_code == 404


def test_a_server_of_its_own_may_stand_behind_a_prefix_too() -> None:
    with serving(rooted(create(make_shop(), tokens=TOKENS))) as server:
        assert server.admin.get("/api/v1/stats").status_code == 200
        assert server.admin.get("/proxy/api/v1/stats").status_code == 200


def test_the_cookie_of_a_mounted_server_is_for_its_path() -> None:
    web = create(make_shop(), tokens=TOKENS)
    with serving(in_starlette(web), PREFIX) as server:
        answer = server[None].post(
            "/api/v1/session", json={"token": bearer(Role.READ)["Authorization"].partition(" ")[2]}
        )
        assert f"Path={PREFIX};" in answer.headers["Set-Cookie"]


def test_nobody_is_let_in_by_default() -> None:
    with pytest.raises(ConfigurationError, match="give tokens or identify"):
        create(Holdfast("memory://"))


def test_websockets_are_refused(server: Serving) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    assert server[None].get("/api/v1/stream", headers=headers).status_code in (400, 401, 403)

"""What comes over HTTP: to the interface, and to a worker's health port."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

from starlette.requests import Request

from fuzz.target import Targets
from holdfast import Holdfast
from holdfast.model.health import Health
from holdfast.telemetry.endpoint import Endpoint
from holdfast.web import Hosts, Role, Token, create
from holdfast.web.origin import check_origin
from holdfast.web.problem import Problem

targets = Targets()

SECRET = "a-long-token-for-the-fuzzer"
LOCAL = "127.0.0.1"
PATIENCE = 5
_APP = Holdfast("memory://")


@_APP.task
async def add(a: int, b: int = 2) -> int:
    return a + b


_TOKENS = [Token.of("fuzz", Role.ADMIN, SECRET)]
_REQUESTS = (
    "GET /api/v1/jobs?limit=5&state=dlq&cursor=01a1ed8b-f043-71c4-bc59-814100ae4244\n\n",
    'POST /api/v1/jobs\ncontent-type: application/json\n\n{"task":"add","arguments":{"a":1}}',
    "POST /api/v1/jobs\ncontent-type: application/json\ncontent-length: 9e9\n\n[[[[",
    'PUT /api/v1/schedules/s\ncontent-type: application/json\n\n{"recurrence":{"kind":"cron"},"task":"add"}',
    "POST /api/v1/queues/%2e%2e%2f/pause\norigin: http://evil\n\n",
    "GET /api/v1/events?limit=200&after=9223372036854775807\n\n",
    "DELETE /api/v1/jobs/%00\nsec-fetch-site: cross-site\n\n",
)


@targets.add(*_REQUESTS)
def requests(data: bytes) -> None:
    """A request line, header lines, an empty line, a body: whatever it says, it is answered."""
    head, _, body = data.partition(b"\n\n")
    line, *lines = head.split(b"\n")
    method, _, target = line.partition(b" ")
    path, _, query = target.partition(b"?")
    given = [(name.lower(), value.strip()) for name, _, value in (each.partition(b":") for each in lines)]
    told = {name for name, _ in given}
    standing = [(b"host", LOCAL.encode()), (b"authorization", f"Bearer {SECRET}".encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method.decode("latin-1").upper() or "GET",
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [*given, *(each for each in standing if each[0] not in told)],
        "client": (LOCAL, 1),
        "server": (LOCAL, 80),
    }
    if path.endswith((b"/stream", b"/session")):
        return  # it does not end, or is throttled
    status = asyncio.run(asyncio.wait_for(_ask(scope, body), PATIENCE))
    assert 200 <= status < 500, status


async def _ask(scope: dict[str, Any], body: bytes) -> int:
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    said: list[int] = []

    async def receive() -> dict[str, Any]:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            said.append(message["status"])

    web = create(_APP, tokens=_TOKENS, hosts=Hosts())
    try:
        await web(scope, receive, send)
    finally:
        await web.site.sampler.stop()
        await web.site.link.close()
    return said[0]


@targets.add(
    "localhost:8080\nhttp://localhost:8080", "[::1]:80\nhttp://[::1", "127.0.0.1\nnull", "a.\nb", ":\n:"
)
def hosts_and_origins(data: bytes) -> None:
    host, _, origin = data.partition(b"\n")
    hosts = Hosts(allowed=["jobs.example.org"], addresses=True)
    headers = [(b"host", host), (b"origin", origin)]
    request = Request({"type": "http", "method": "POST", "headers": headers})
    for check in (hosts.check, lambda each: check_origin(each, hosts)):
        try:
            check(request)
        except Problem:
            continue
    hosts.knows(host.decode("latin-1"))


@cache
def _endpoints() -> tuple[Endpoint, ...]:
    """One that asks for a token and one that does not; what they would listen on is closed."""
    made = tuple(
        Endpoint(LOCAL, 0, lambda: Health(True, True, ()), str, token=token) for token in (None, SECRET)
    )
    for endpoint in made:
        endpoint._server.server_close()
    return made


@targets.add("localhost:1\nBearer x", "[::1]\nBasic eA==", "evil.example\n", "127.0.0.1:99999\nbearer é")
def health_port(data: bytes) -> None:
    host, _, authorization = data.decode("latin-1").partition("\n")
    without, with_token = _endpoints()
    without.may_read(host, authorization)
    assert not without.may_read("evil.example", authorization)
    assert not with_token.may_read(host, authorization) or SECRET in authorization

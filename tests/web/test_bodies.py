"""What requests bring: too much, the wrong kind, or hostile."""

import socket
from urllib.parse import quote

import pytest
from starlette.requests import Request

from holdfast.web import Bounds
from holdfast.web.access import Role
from holdfast.web.problem import Problem
from holdfast.web.reading import read_body
from tests.web.serving import SECRETS, Serving, make_web, serving
from tests.web.shop import make_shop

JSON = {"Content-Type": "application/json"}
LIMIT = Bounds().body_bytes


def raw(server: Serving, request: bytes) -> bytes:
    """The answer to bytes that no client would send, read to its end."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
            if b"\r\n\r\n" in answer and b'"field"' in answer:
                break
    return answer


def head(path: str, *lines: str) -> bytes:
    start = (f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {SECRETS[Role.ADMIN]}")
    return "\r\n".join((*start, "Content-Type: application/json", *lines, "", "")).encode()


@pytest.mark.parametrize("length", ["9999999999999999999", str(LIMIT + 1)])
def test_a_body_that_is_announced_as_too_large_is_refused_before_it_comes(
    server: Serving, length: str
) -> None:
    answer = raw(server, head("/api/v1/jobs", f"Content-Length: {length}"))
    assert b" 413 " in answer.partition(b"\r\n")[0]
    assert b"connection: close" in answer.lower()


def test_a_body_without_a_length_is_refused_as_soon_as_it_is_too_large(server: Serving) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    sent = head("/api/v1/jobs", "Transfer-Encoding: chunked") + chunk * (LIMIT // 0x10000 + 1)
    assert b" 413 " in raw(server, sent).partition(b"\r\n")[0]


def test_who_waits_to_be_asked_for_the_body_is_never_asked_for_too_much(server: Serving) -> None:
    answer = raw(server, head("/api/v1/jobs", "Content-Length: 999999999", "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_body_that_a_form_could_send_is_refused(server: Serving, kind: str) -> None:
    answer = server.admin.post("/api/v1/jobs", content=b'{"task": "add"}', headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"[" * 100_000,
        b'{"task": "add", "arguments": ' + b'{"a":' * 50_000,
        b"\xff\xfe",
        b'{"task": "\\ud800"}',
        b'{"task": 1}',
        b'{"task": "add", "nothing": 1}',
        b'{"task": "add", "priority": 1e400}',
        b'{"task": "add", "priority": ' + b"9" * 5000 + b"}",
        b'{"task": "add", "delay": -1}',
        b'{"task": "add", "delay": NaN}',
        b'{"task": "add", "at": "2026-01-01T00:00:00"}',
        b'{"task": "a b"}',
        b'{"task": "add\\n"}',
        b'{"task": "add", "key": "' + b"k" * 300 + b'"}',
        b'{"task": "add", "tags": ["x\\u0000"]}',
    ],
)
def test_a_body_that_says_nothing_sensible_is_a_400(server: Serving, body: bytes) -> None:
    answer = server.admin.post("/api/v1/jobs", content=body, headers=JSON)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["code"] == "invalid"


@pytest.mark.parametrize(
    "arguments",
    ['{"a": ' + "9" * 400 + "}", '{"a": "x"}', "{}", '{"a": 1, "c": 2}', '{"a": 1e400}', '{"a": 1.5}'],
)
def test_arguments_that_do_not_fit_the_task_are_a_422(server: Serving, arguments: str) -> None:
    body = f'{{"task": "add", "arguments": {arguments}}}'
    answer = server.admin.post("/api/v1/jobs", content=body.encode(), headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["code"] in ("invalid", "invalid_arguments")


HOSTILE = [
    "x'; DROP TABLE job; --",
    "a:b",
    "../../etc/passwd",
    "{slot}",
    "a\r\nSet-Cookie: x=1",
    "nul\0nul",
    "n" * 3000,
    "\u202eesrever",
    "<script>alert(1)</script>",
    "%2e%2e",
    "😀",
    "-x",
    "a b",
]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/jobs/{}"),
        ("POST", "/api/v1/jobs/{}/cancel"),
        ("GET", "/api/v1/workers/{}"),
        ("GET", "/api/v1/schedules/{}"),
        ("POST", "/api/v1/schedules/{}/run"),
        ("POST", "/api/v1/queues/{}/pause"),
        ("DELETE", "/api/v1/limits/queue/{}"),
        ("DELETE", "/api/v1/limits/{}/x"),
        ("POST", "/api/v1/groups/{}/x/skip"),
        ("GET", "/api/v1/batches/{}"),
        ("GET", "/api/v1/jobs?queue={}"),
        ("GET", "/api/v1/jobs?cursor={}"),
        ("GET", "/api/v1/jobs?worker={}"),
        ("GET", "/api/v1/jobs?{}=1"),
        ("GET", "/api/v1/events?topic={}"),
        ("GET", "/api/v1/series?queue={}"),
        ("GET", "/api/v1/stream?job={}"),
    ],
)
def test_hostile_names_are_refused_and_nothing_breaks(
    server: Serving, method: str, path: str, name: str
) -> None:
    answer = server.admin.request(method, path.format(quote(name, safe="")))
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["error"]["code"] in ("invalid", "not_found")
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "query",
    [
        "limit=1000000000",
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=1&limit=2",
        "state=nothing",
        "due_after=yesterday",
        "due_after=2026-01-01T00:00:00",
        "limit=" + "9" * 5000,
        "q=" + "x" * 20_000,
        "cursor=1",
        "offset=1000000",
        "limit[]=1",
        "limit=1;drop",
    ],
)
def test_every_parameter_has_its_bounds(server: Serving, query: str) -> None:
    answer = server.admin.get(f"/api/v1/jobs?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_name_with_a_slash_is_found_by_its_escape(server: Serving) -> None:
    assert server.admin.post("/api/v1/queues/a%2Fb/pause").json() == {"name": "a/b", "paused": True}
    assert server.admin.post("/api/v1/queues/a/b/pause").status_code == 404
    names = [queue["name"] for queue in server.admin.get("/api/v1/queues").json()["queues"]]
    assert "a/b" in names


def test_a_body_that_comes_too_slowly_ends_with_the_time_of_the_request() -> None:
    with serving(make_web(make_shop(), Bounds(budget_seconds=0.5))) as server:
        answer = raw(server, head("/api/v1/jobs", "Content-Length: 100") + b"{")
        assert b" 504 " in answer.partition(b"\r\n")[0]


def test_a_request_for_the_server_as_a_whole_is_for_nothing_here(server: Serving) -> None:
    told = f"Authorization: Bearer {SECRETS[Role.ADMIN]}\r\nConnection: close\r\n\r\n"
    answer = raw(server, b"GET * HTTP/1.1\r\nHost: localhost\r\n" + told.encode())
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_an_argument_may_be_called_self_like_any_other(server: Serving) -> None:
    answer = server.admin.post("/api/v1/jobs", json={"task": "add", "arguments": {"a": 1, "self": 2}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_arguments")
    assert "self" in answer.text


def test_of_nobody_no_more_is_read_than_a_token_needs(server: Serving) -> None:
    start = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert raw(server, start + b"Content-Length: 4097\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    chunks = b"Transfer-Encoding: chunked\r\n\r\n1001\r\n" + b" " * 0x1001 + b"\r\n"
    assert raw(server, start + chunks).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("length", ["\xb2", "-1", "x", ""])
async def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    headers = [(b"content-length", length.encode("latin-1"))]
    request = Request({"type": "http", "method": "POST", "headers": headers})
    with pytest.raises(Problem) as refused:
        await read_body(request, None, LIMIT)
    assert refused.value.status == 413

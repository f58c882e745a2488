"""Pages of other sites, and names that point here but are not ours."""

from collections.abc import Iterator

import httpx
import pytest

from holdfast.web import Hosts
from holdfast.web.access import Role
from holdfast.web.sessions import COOKIE, CSRF_HEADER
from tests.web.serving import SECRETS, Serving

PAUSE = "/api/v1/queues/mail/pause"


@pytest.fixture
def page(server: Serving) -> Iterator[httpx.Client]:
    """A browser that has signed in."""
    with httpx.Client(base_url=server.url) as browser:
        answer = browser.post("/api/v1/session", json={"token": SECRETS[Role.ADMIN]})
        assert answer.status_code == 200
        browser.headers[CSRF_HEADER] = answer.json()["csrf"]
        yield browser


@pytest.mark.parametrize("site", ["cross-site", "same-site", "evil", "Cross-Site"])
@pytest.mark.parametrize("path", [PAUSE, "/api/v1/session", "/api/v1/jobs", "/api/v1/jobs/bulk"])
def test_a_change_that_another_site_asked_for_is_refused(page: httpx.Client, site: str, path: str) -> None:
    answer = page.post(path, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "wrong_origin"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/v1/overview", "/api/v1/stream", "/metrics", "/api/v1/openapi.json"])
def test_another_site_does_not_get_data_either(page: httpx.Client, site: str, path: str) -> None:
    assert page.get(path, headers={"Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "file://",
        "http://[",
        "127.0.0.1",
    ],
)
@pytest.mark.parametrize("role", [None, Role.ADMIN])
def test_a_change_from_another_origin_is_refused_whoever_asks(
    server: Serving, page: httpx.Client, origin: str, role: Role | None
) -> None:
    client = page if role is None else server[role]
    answer = client.post(PAUSE, headers={"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "wrong_origin"


def test_pages_of_this_server_change_things(server: Serving, page: httpx.Client) -> None:
    ours = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert page.post(PAUSE, headers=ours).json() == {"name": "mail", "paused": True}
    assert page.post(PAUSE.replace("pause", "resume")).json() == {"name": "mail", "paused": False}


@pytest.mark.parametrize("given", [None, "", "wrong", "mounted"])
def test_a_session_changes_nothing_without_its_proof(page: httpx.Client, given: str | None) -> None:
    del page.headers[CSRF_HEADER]
    headers = {} if given is None else {CSRF_HEADER: given}
    for method, path in (
        ("POST", PAUSE),
        ("DELETE", "/api/v1/session"),
        ("PUT", "/api/v1/limits/queue/mail"),
    ):
        answer = page.request(method, path, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "csrf"
    assert page.get("/api/v1/session").status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:1234", 200),
        ("LOCALHOST.", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("192.0.2.7", 421),
        ("localhost:x", 421),
        ("", 400),
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/stats", "/health/live", "/metrics"])
def test_only_names_of_this_server_are_answered(server: Serving, host: str, status: int, path: str) -> None:
    answer = server.admin.get(path, headers={"Host": host})
    assert answer.status_code == status or (path == "/" and answer.status_code == 404 and status == 200)


def test_hosts_allow_what_their_operator_named() -> None:
    open_hosts = Hosts(["10.0.0.5"], allowed=["jobs.example"], addresses=True)
    assert open_hosts.knows("jobs.example:443")
    assert open_hosts.knows("192.0.2.7")
    assert open_hosts.knows("[2001:db8::1]:80")
    assert not open_hosts.knows("evil.example")
    assert Hosts(allowed=["*"]).knows("anything.example")


def test_the_cookie_is_for_this_server_alone(server: Serving) -> None:
    answer = httpx.post(f"{server.url}/api/v1/session", json={"token": SECRETS[Role.READ]})
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    assert SECRETS[Role.READ] not in cookie

"""Every route, by every role: from the table itself, so that a new route cannot be forgotten."""

import httpx
import pytest

from holdfast.web.access import Role
from holdfast.web.routing import Route
from holdfast.web.table import TABLE
from tests.web.serving import Serving, bearer

ID = "01a1ec4d-039f-756f-8d03-0db1eda0c385"
NOBODY_MAY = {"get_live", "get_ready", "sign_in"}
"""What needs no role: to sign in, and health, which this machine may ask for."""
EXPECTED = {
    Role.READ: """find_jobs get_batch get_job get_leader get_metrics get_openapi get_overview get_schedule
        get_series get_session get_stats get_worker list_batches list_dead_groups list_events list_groups
        list_limits list_locks list_queues list_schedules list_tasks list_workers sign_out stream""",
    Role.OPERATE: """cancel_batch cancel_job change_jobs close_batch edit_job enqueue pause_queue
        pause_schedule put_schedule remove_limit replay_dead replay_events replay_job resume_queue
        resume_schedule run_schedule set_limit skip_events""",
    Role.ADMIN: "delete_job discard_dead get_payload remove_schedule",
}


def ask(client: httpx.Client, route: Route, **more: object) -> httpx.Response:
    path = route.path
    for name in route.parameters:
        path = path.replace("{" + name + "}", ID if name == "id" else "queue")
    # A stream does not end; its headers say as much.
    method = "HEAD" if route.streams else route.method
    return client.request(method, path, **more)  # type: ignore[arg-type]


def names(route: Route) -> str:
    return f"{route.method} {route.path}"


def test_the_least_role_of_every_route_is_the_one_that_was_decided() -> None:
    found = {role: sorted(each.name for each in TABLE.routes if each.role is role) for role in Role}
    assert found == {role: sorted(text.split()) for role, text in EXPECTED.items()}
    assert {each.name for each in TABLE.routes if each.role is None} == NOBODY_MAY


@pytest.mark.parametrize("role", [None, *Role])
@pytest.mark.parametrize("route", TABLE.routes, ids=names)
def test_a_route_answers_those_who_may_and_no_others(
    server: Serving, route: Route, role: Role | None
) -> None:
    answer = ask(server[role], route)
    if route.role is None:
        assert answer.status_code != 403
    elif role is None:
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert route.streams or answer.json()["error"]["code"] == "unauthorized"
    elif role.covers(route.role):
        assert answer.status_code not in (401, 403, 500)
    else:
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden"


@pytest.mark.parametrize("route", [each for each in TABLE.routes if each.role is not None], ids=names)
def test_wrong_credentials_are_none(server: Serving, route: Route) -> None:
    for given in ("Bearer wrong", "Bearer", "Basic YTpi", "x" * 5000):
        assert ask(server[None], route, headers={"Authorization": given}).status_code == 401


@pytest.mark.parametrize(
    "path", ["/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v2/jobs", "/x", "/static/x"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "DELETE", "TRACE", "PROPFIND"])
def test_what_is_not_there_is_not_told_to_nobody(server: Serving, path: str, method: str) -> None:
    assert server[None].request(method, path).status_code == 401
    assert server.admin.request(method, path).status_code == 404


@pytest.mark.parametrize("route", TABLE.routes, ids=names)
def test_every_answer_forbids_what_a_browser_should_not_do(server: Serving, route: Route) -> None:
    headers = ask(server.admin, route).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert len(headers["X-Request-Id"]) == 16
    assert "server" not in headers or headers["server"] != "holdfast"
    assert not [name for name in headers if name.lower().startswith("access-control-")]


def test_methods_that_a_path_does_not_take_are_named(server: Serving) -> None:
    answer = server.admin.put("/api/v1/jobs")
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    assert server.admin.options("/api/v1/jobs").headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    head = server.admin.head("/api/v1/stats")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["Content-Length"]) > 0


def test_the_role_of_a_token_is_the_one_of_the_session_and_of_health_nobody_needs_one(
    server: Serving,
) -> None:
    for role in Role:
        assert server[role].get("/api/v1/session").json()["role"] == role
    assert server[None].get("/health/live").json() == {"ok": True, "reason": None}
    assert server[None].get("/health/ready").status_code == 200


def test_health_is_for_this_machine_only(server: Serving) -> None:
    # The server believes no proxy, so what a client says about its address changes nothing.
    forged = {"X-Forwarded-For": "203.0.113.9", **bearer(Role.READ)}
    assert server[None].get("/health/ready", headers=forged).status_code == 200

"""A secret is found nowhere but where it is asked for by who may."""

import io
import logging
import time
from collections.abc import Iterator

import msgspec
import pytest

from holdfast import Event, Holdfast, Never
from holdfast.telemetry.logs import JsonFormatter, LogfmtFormatter
from holdfast.web.access import Role, Token, Tokens
from holdfast.web.table import TABLE
from tests.web.serving import SECRETS, Serving, make_web, serving
from tests.web.shop import make_shop
from tests.web.test_access import ask

CANARY = "canary-7f3a9c"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, in both formats."""
    stream = io.StringIO()
    handlers = [logging.StreamHandler(stream) for _ in range(2)]
    for handler, formatter in zip(handlers, (LogfmtFormatter(), JsonFormatter()), strict=True):
        handler.setFormatter(formatter)
        logging.getLogger().addHandler(handler)
    before = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    yield stream
    logging.getLogger().setLevel(before)
    for handler in handlers:
        logging.getLogger().removeHandler(handler)


def test_the_canary_is_only_in_the_authorised_view(server: Serving, shop: Holdfast, log: io.StringIO) -> None:
    by_key = {"to": "ann", "password": CANARY}
    made = [
        server.admin.post("/api/v1/jobs", json={"task": "send", "arguments": by_key}),
        server.admin.post("/api/v1/jobs", json={"task": "pay", "arguments": {"card": CANARY}}),
    ]

    async def emit() -> None:
        await shop.emit(Event(topic="t", type="x", data={"nested": [{"api_key": CANARY}]}))

    server.run(emit())
    server.drain(shop)
    ids = [answer.json()["job"]["id"] for answer in made]
    answers = [answer.text for answer in made]
    wrong = [
        server.admin.post("/api/v1/jobs", json={"task": "send", "arguments": {"to": 1, "password": CANARY}}),
        server.admin.post("/api/v1/jobs", json={"task": "pay", "arguments": {"card": [CANARY]}}),
        server.admin.post("/api/v1/session", json={"token": f"{CANARY}"}),
        server.admin.get("/api/v1/stats", headers={"Authorization": f"Bearer {CANARY}"}),
    ]
    assert all(answer.status_code >= 400 for answer in wrong)
    answers += [answer.text for answer in wrong]
    for route in TABLE.routes:
        if route.method == "GET" and route.name != "get_payload":
            answers.append(ask(server.admin, route).text)
    for job_id in ids:
        answers.append(server[Role.READ].get(f"/api/v1/jobs/{job_id}").text)
        assert server[Role.OPERATE].get(f"/api/v1/jobs/{job_id}/payload").status_code == 403
    assert CANARY not in "".join(answers)
    assert "***" in "".join(answers)
    seen = [server.admin.get(f"/api/v1/jobs/{job_id}/payload").json() for job_id in ids]
    assert seen[0]["arguments"] == by_key
    assert seen[1] == {"arguments": {"card": CANARY}, "result": {"receipt": "r-1", "api_key": CANARY}}
    told = log.getvalue()
    assert CANARY not in told
    assert "action=get_payload" in told
    assert not any(secret in told for secret in SECRETS.values())


class Door(msgspec.Struct):
    """How to get in somewhere. The names of the last fields are words of a schema, too."""

    token: str = CANARY
    default: int = 8443
    properties: str = CANARY


def test_what_a_task_takes_by_default_is_not_told() -> None:
    shop = make_shop()

    @shop.task
    async def enter(doors: list[Door], password: str = CANARY) -> None: ...

    with serving(make_web(shop)) as server:
        answer = server[Role.READ].get("/api/v1/tasks")
    assert CANARY not in answer.text
    [schema] = [each["schema"] for each in answer.json()["tasks"] if each["name"] == "enter"]
    assert schema["$defs"]["Door"]["properties"] == {
        "token": {"type": "string"},
        "default": {"type": "integer"},
        "properties": {"type": "string"},
    }


def test_the_words_of_an_exception_are_masked_wherever_they_are_shown() -> None:
    shop = make_shop()
    url = f"postgresql://me:{CANARY}@host/db"

    @shop.on("orders", group="billing", retry=Never())
    async def bill(event: Event[str]) -> None:
        raise ConnectionError(f"cannot reach {url}")

    with serving(make_web(shop)) as server:
        body = {"task": "send", "arguments": {"to": url, "password": "x"}}
        job_id = server.admin.post("/api/v1/jobs", json=body).json()["job"]["id"]

        async def emit() -> None:
            await shop.emit(Event(topic="orders", type="x", data="y"))

        server.run(emit())
        server.drain(shop)
        page = server.admin.get(f"/api/v1/jobs/{job_id}")
        groups = server.admin.get("/api/v1/groups")
    explanation = page.json()["explanation"]
    for shown in (explanation["sentence"], explanation["facts"]["reason"]):
        assert "postgresql://me:***@host/db" in shown
    assert "postgresql://me:***@host/db" in groups.json()["groups"][0]["waiting"][0]["reason"]
    assert CANARY not in page.text + groups.text


def test_each_change_is_one_line_that_says_who(server: Serving, log: io.StringIO) -> None:
    server[Role.OPERATE].post("/api/v1/queues/q1/pause")
    server[Role.READ].post("/api/v1/queues/q2/pause")
    server[None].post("/api/v1/session", json={"token": "wrong"})
    lines = [line for line in log.getvalue().splitlines() if "logger=holdfast.audit" in line]
    assert len(lines) == 3
    done, refused, failed = lines
    assert "user=operate role=operate action=pause_queue on=q1 count=1 status=200 remote=127.0.0.1" in done
    assert "user=read role=read action=pause_queue on=q2 count=1 status=403" in refused
    assert "user=- " in failed
    assert "action=sign_in" in failed
    assert "status=401" in failed


def test_a_change_that_is_refused_before_anybody_is_known_is_recorded(
    server: Serving, log: io.StringIO
) -> None:
    path, foreign = "/api/v1/queues/q3/pause", {"Sec-Fetch-Site": "cross-site"}
    assert server[None].post(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert server.admin.post(path, headers={"Host": "evil.example"}).status_code == 421
    assert server.admin.post(path, headers=foreign).status_code == 403
    server[None].get("/api/v1/stats")
    lines = [line for line in log.getvalue().splitlines() if "logger=holdfast.audit" in line]
    assert len(lines) == 3
    for line, status in zip(lines, (401, 421, 403), strict=True):
        assert f"user=- role=read action=pause_queue on=q3 count=1 status={status}" in line


def test_nothing_that_is_sent_can_begin_a_line_of_the_log(server: Serving, log: io.StringIO) -> None:
    forged = "x%0D%0Atime=now%20logger=holdfast.audit%20event=change%1B%5B2J%E2%80%AE"
    server.admin.post(f"/api/v1/queues/{forged}/pause")
    server.admin.get(f"/api/v1/workers/{forged}")
    written = log.getvalue()
    assert len([line for line in written.splitlines() if line.startswith(("time=now", "x"))]) == 0
    assert "\x1b" not in written
    assert "\u202e" not in written


def test_a_defect_says_nothing_of_itself_but_where_to_look(
    server: Serving, shop: Holdfast, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(**_: object) -> None:
        raise RuntimeError(f"postgresql://ann:{CANARY}@db/x is away")

    monkeypatch.setattr(shop, "find", broken)
    answer = server.admin.get("/api/v1/jobs")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "RuntimeError" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.json()["error"]["message"]
    written = log.getvalue()
    assert f"request={answer.headers['X-Request-Id']}" in written
    assert "RuntimeError" in written
    assert CANARY not in written


def test_how_long_a_wrong_token_takes_does_not_depend_on_the_others() -> None:
    tokens = Tokens([Token.of(f"t{each}", Role.READ, f"secret-{each}") for each in range(50)])

    def spent(secret: str) -> float:
        began = time.perf_counter()
        for _ in range(300):
            tokens.find(secret)
        return time.perf_counter() - began

    spent("warm-up")
    first, last = min(spent("secret-0") for _ in range(5)), min(spent("secret-49") for _ in range(5))
    assert 0.5 < first / last < 2

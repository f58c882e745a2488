import httpx
import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.web.access import Identity, Role, Token, Tokens, new_secret, parse_tokens
from holdfast.web.sessions import CSRF_HEADER, Sessions
from holdfast.web.throttle import Throttle
from tests.web.serving import SECRETS, make_web, serving
from tests.web.shop import make_shop

ANN = Identity("ann", Role.OPERATE)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_begins_by_a_token_and_ends_by_signing_out() -> None:
    with serving(make_web(make_shop())) as server, httpx.Client(base_url=server.url) as browser:
        assert browser.get("/api/v1/session").status_code == 401
        began = browser.post("/api/v1/session", json={"token": SECRETS[Role.OPERATE]})
        assert began.json()["role"] == "operate"
        assert browser.get("/api/v1/session").json() == began.json()
        kept = dict(browser.cookies)
        ended = browser.delete("/api/v1/session", headers={CSRF_HEADER: began.json()["csrf"]})
        assert ended.status_code == 204
        assert "Max-Age=0" in ended.headers["Set-Cookie"]
        # Who kept the cookie cannot go on either.
        assert httpx.get(f"{server.url}/api/v1/session", cookies=kept).status_code == 401


def test_credentials_for_a_proxy_do_not_end_a_session() -> None:
    with serving(make_web(make_shop())) as server, httpx.Client(base_url=server.url) as browser:
        browser.post("/api/v1/session", json={"token": SECRETS[Role.READ]})
        for given, status in (("Basic YTpi", 200), ("Negotiate x", 200), ("Bearer wrong", 401)):
            answer = browser.get("/api/v1/stats", headers={"Authorization": given})
            assert answer.status_code == status


def test_signing_in_cannot_be_tried_at_will() -> None:
    with serving(make_web(make_shop())) as server:
        answers = [
            server[None].post("/api/v1/session", json={"token": f"guess-{each}"}).status_code
            for each in range(12)
        ]
        assert answers == [401] * 10 + [429] * 2
        late = server[None].post("/api/v1/session", json={"token": SECRETS[Role.ADMIN]})
        assert late.status_code == 429
        assert 1 <= int(late.headers["Retry-After"]) <= 6
        assert server.admin.get("/api/v1/session").status_code == 200


def test_tokens_cannot_be_guessed_at_will() -> None:
    with serving(make_web(make_shop())) as server:
        wrong = [{"Authorization": f"Bearer guess-{each}"} for each in range(12)]
        answers = [server[None].get("/api/v1/stats", headers=each) for each in wrong]
        assert [each.status_code for each in answers] == [401] * 10 + [429] * 2
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 6
        assert server[None].post("/api/v1/session", json={"token": "guess"}).status_code == 429
        assert server[None].get("/api/v1/stats").status_code == 401
        assert server.admin.get("/api/v1/stats").status_code == 200


def test_sessions_end_when_unused_and_at_last_in_any_case() -> None:
    clock = Clock()
    sessions = Sessions(longest_seconds=100, idle_seconds=30, clock=clock)
    cookie = sessions.begin(ANN)
    session = sessions.find(cookie)
    assert session is not None
    for _ in range(4):
        clock.now += 20
        assert sessions.find(cookie) is session
    clock.now += 21
    assert sessions.find(cookie) is None
    idle = sessions.begin(ANN)
    clock.now += 31
    assert sessions.find(idle) is None
    assert not session.is_open


def test_of_too_many_sessions_the_one_unused_for_longest_ends() -> None:
    sessions = Sessions()
    first, second = sessions.begin(ANN), sessions.begin(ANN)
    assert sessions.find(first) is not None
    for _ in range(999):
        sessions.begin(ANN)
    assert sessions.find(second) is None
    assert sessions.find(first) is not None
    assert sessions.find("") is None
    assert sessions.find("\ud800") is None


def test_a_throttle_lets_some_through_and_then_one_at_a_time() -> None:
    clock = Clock()
    throttle = Throttle(3, 30, clock=clock)
    assert [throttle.wait("a") for _ in range(3)] == [0.0] * 3
    assert throttle.wait("a") == 10
    assert throttle.wait("b") == 0
    clock.now += 10
    assert throttle.wait("a") == 0
    assert throttle.wait("a") == 10
    throttle.forgive("a")
    assert throttle.wait("a") == 0


def test_a_throttle_forgets_the_longest_unseen() -> None:
    throttle = Throttle(1, 30)
    for number in range(10_001):
        assert throttle.wait(str(number)) == 0
    assert throttle.wait("0") == 0
    assert throttle.wait("10000") > 0


def test_tokens_are_kept_as_hashes() -> None:
    secret = new_secret()
    token = Token.of("grafana", Role.READ, secret)
    assert secret not in repr(token)
    assert secret not in token.line
    [read] = parse_tokens(f"# those who look\n\n{token.line}\n", "tokens.txt")
    assert read == token
    assert Tokens([read]).find(secret) == token
    assert Tokens([read]).find(secret + "x") is None
    assert Tokens().find("") is None


@pytest.mark.parametrize(
    "line",
    ["ann", "ann read", "ann king sha256:" + "0" * 64, "ann read md5:00", "ann read sha256:0", "a:b read x"],
)
def test_a_file_of_tokens_that_cannot_be_read_names_the_line(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tokens\.txt, line 2"):
        parse_tokens(f"# first\n{line}\n", "tokens.txt")


def test_two_tokens_of_one_name_are_refused() -> None:
    token = Token.of("ann", Role.READ, "x")
    with pytest.raises(ConfigurationError, match="two tokens"):
        Tokens([token, token])


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "x" * 300])
def test_a_token_has_a_name_that_can_be_logged(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"token\.name"):
        Token.of(name, Role.READ, "x")

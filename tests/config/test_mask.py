import time

import pytest

from holdfast.model.masking import mask, mask_url
from holdfast.model.settings import Settings

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{CANARY}@host:5432/db", "postgresql://me:***@host:5432/db"),
        (f"redis://:{CANARY}@host/0", "redis://:***@host/0"),
        (f"postgresql://me:a/{CANARY}@b@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:a {CANARY}\n@host/db", "postgresql://me:***@host/db"),
        (
            f"postgresql://host/db?user=me&password={CANARY}&x=1",
            "postgresql://host/db?user=me&password=***&x=1",
        ),
        (f"postgresql://host/db?sslpassword={CANARY}", "postgresql://host/db?sslpassword=***"),
        (f"mssql://host?odbc_connect=PWD%3D{CANARY}", "mssql://host?odbc_connect=***"),
        ("sqlite:////var/lib/a:b@c.db", "sqlite:////var/lib/a:b@c.db"),
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("memory://", "memory://"),
        ("not a url", "not a url"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert mask_url(url) == shown


def test_urls_inside_other_text_are_masked_too() -> None:
    text = f"cannot connect to postgresql://me:{CANARY}@host/db and redis://:{CANARY}@other, giving up"
    masked = mask(text)
    assert CANARY not in masked
    assert "postgresql://me:***@host/db" in masked
    assert masked.endswith("giving up")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Server=h;Password={CANARY};Port=1", "Server=h;Password=***;Port=1"),
        (f"https://x/?back=https://y?token={CANARY}", "https://x/?back=https://y?token=***"),
        (
            f"store=postgresql%3a%2F%2Fme%3A{CANARY}%40host&n=1",
            "store=postgresql%3a%2F%2Fme%3A***%40host&n=1",
        ),
        (f"1://a:{CANARY}@host", "1://a:***@host"),
        (
            f"partition://?a=redis%3A%2F%2F%3A{CANARY}%40h&b=memory://",
            "partition://?a=redis:***@h&b=memory://",
        ),
        ("https://a.b/c and ann@example.org", "https://a.b/c and ann@example.org"),
        ("ratio %40 of 3:4", "ratio %40 of 3:4"),
    ],
)
def test_what_is_secret_in_a_text_is_masked_and_nothing_else(text: str, shown: str) -> None:
    assert mask(text) == shown


@pytest.mark.parametrize(
    "part",
    [
        *(
            "%3A%2F%2F",
            "%3A",
            "%40%3A%2F%2F",
            "%3A%2F%2F%40&",
            "://",
            ":",
            "@",
            ":@",
            "://:",
            "://@",
            "a://b:c@ ",
        ),
        *("?pass", "pass", "&key=", ";token", "partition://", "partition://?a=", "partition://?a=b&", "a://"),
    ],
)
def test_masking_takes_no_time_worth_speaking_of_whatever_the_text(part: str) -> None:
    long = part * (65_536 // len(part))
    for work in (mask, mask_url):
        for text in (long, f"a://{long}", f"?{long}"):
            began = time.process_time()
            work(text)
            assert time.process_time() - began < 0.05


def test_settings_do_not_show_the_password_of_their_store() -> None:
    shown = repr(Settings(store=f"postgresql://me:{CANARY}@host/db", concurrency=3))
    assert CANARY not in shown
    assert "postgresql://me:***@host/db" in shown
    assert "concurrency=3" in shown

"""What a URL says, and that nothing of one namespace is another's."""

import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.stores import open_store
from holdfast.stores.redis.address import parse


@pytest.mark.parametrize(
    ("url", "kind", "place", "db", "secure"),
    [
        ("redis://", "server", "localhost:6379", 0, False),
        ("redis://h", "server", "h:6379", 0, False),
        ("redis://u:p@h:7000/3", "server", "h:7000/3", 3, False),
        ("valkey://h", "server", "h:6379", 0, False),
        ("rediss://h/1?ssl_cert_reqs=none", "server", "h:6379/1", 1, True),
        ("valkeys://h", "server", "h:6379", 0, True),
        ("redis://[::1]:7000", "server", "[::1]:7000", 0, False),
        ("redis+sentinel://a,b:1/main/2", "sentinel", "a:26379,b:1/main/2", 2, False),
        ("rediss+sentinel://a/main", "sentinel", "a:26379/main", 0, True),
        ("redis+cluster://a,b:1", "cluster", "a:6379,b:1", 0, False),
        ("redis+unix:///run/redis.sock?db=2", "unix", "/run/redis.sock", 2, False),
    ],
)
def test_a_url_names_servers_and_database(url: str, kind: str, place: str, db: int, secure: bool) -> None:
    address = parse(url)
    assert (address.kind, address.place, address.db, address.secure) == (kind, place, db, secure)


def test_credentials_are_read_and_never_shown() -> None:
    address = parse("redis://us%40er:p%2Fw@h/0?sentinel_password=s")
    assert address.credentials == {"username": "us@er", "password": "p/w"}
    assert address.sentinel_credentials == {"password": "s"}
    assert "p/w" not in repr(address)
    assert "p/w" not in address.place


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("redis://h/x", "number of a database"),
        ("redis://h/1/2", "too many parts"),
        ("redis://h:99999", "host and port"),
        ("redis://u:se/cret@h", "host and port"),
        ("redis://a,b", "several hosts"),
        ("redis+sentinel://a", "name of the service"),
        ("redis+cluster://a/3", "database 0"),
        ("redis+unix://", "path"),
        ("rediss+unix:///run/redis.sock", "no TLS"),
        ("redis://h?timeout=0", "timeout"),
        ("redis://h?notify=maybe", "notify"),
        ("redis://h?prefix=a%20b", "prefix"),
        ("redis://h?colour=red", "colour"),
        ("rediss+what://h", "redis://host"),
    ],
)
def test_what_is_wrong_with_a_url_is_named(url: str, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part) as caught:
        parse(url)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "redis+cluster"])
def test_each_scheme_opens_a_store_without_any_call(scheme: str) -> None:
    store = open_store(f"{scheme}://nowhere.invalid")
    assert store.migrations is None
    assert store.transactions is None


@pytest.mark.parametrize(("one", "other"), [("a", "a}:s:q"), ("a%7D", "a}"), ("a", "a%"), ("a", "a:b")])
def test_keys_of_two_namespaces_never_begin_alike(one: str, other: str) -> None:
    address = parse("redis://h")
    keys = address.key(one), address.key(other)
    assert not keys[0].startswith(keys[1])
    assert not keys[1].startswith(keys[0])
    assert all(key.count(b"}") == 1 for key in keys)

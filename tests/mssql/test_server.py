"""How the server that the environment names is reached by tests."""

import pytest

from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.seat import Opened
from holdfast.stores.mssql.shelf import shelf_of
from tests.mssql.fake_driver import FakeConnection, FakeDriver
from tests.mssql.server import usable
from tests.mssql.warm import let_go


@pytest.mark.parametrize(
    ("host", "is_encrypted"),
    [
        ("127.0.0.1", False),
        ("localhost", False),
        ("babelfish", False),
        ("10.1.2.3", False),
        ("db.example", True),
    ],
)
def test_any_server_can_be_named_by_host_user_and_password_alone(host: str, is_encrypted: bool) -> None:
    address = parse(usable(f"mssql://ann:s3cr3t@{host}:1433/jobs"))
    assert (address.user, address.password, address.encrypt) == ("ann", "s3cr3t", is_encrypted)


def test_what_the_url_says_counts() -> None:
    address = parse(usable("mssql+pytds://ann:s3cr3t@babelfish/jobs?encrypt=on&pool=3"))
    assert (address.encrypt, address.pool) == (True, 3)


def test_a_server_without_a_user_is_signed_in_to_with_a_token_and_so_encrypted() -> None:
    assert parse(usable("mssql://babelfish/jobs")).encrypt


def test_connections_to_one_schema_are_let_go_when_those_to_another_are_laid_up() -> None:
    address = parse("mssql://ann:s3cr3t@localhost/jobs?schema=hf_a&timeout=60")
    made = [FakeConnection(FakeDriver(), patience) for patience in (60.0, 60.0, None)]
    for connection in made:
        shelf_of(address).put(Opened(connection), connection.patience)
    let_go(address)
    assert [connection.is_closed for connection in made] == [True] * 3
    assert shelf_of(address).take(60.0) is None

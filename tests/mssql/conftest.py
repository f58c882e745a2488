"""What tests of the drivers start from."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.mssql.tds_peer import Peer, peer
from tests.servers.ltdl import provide_ltdl

SCHEMES = ("mssql", "mssql+pytds")


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    """The scheme of each driver, one after the other."""
    name: str = request.param
    if name == "mssql":
        provide_ltdl()
    return name


@pytest.fixture
def tds() -> Iterator[Peer]:
    """A server that says what the test tells it to."""
    with peer() as made:
        yield made


@dataclass(frozen=True)
class Encrypted:
    """A peer that speaks TLS, and the file with the authority that its certificate is from."""

    peer: Peer
    authority: Path


@pytest.fixture
def encrypted_tds(tmp_path: Path) -> Iterator[Encrypted]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Within TDS 7 hands are shaken as TLS 1.2 does it.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    authority.issue_cert("localhost").configure_cert(context)
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(file)
    with peer(context) as made:
        yield Encrypted(made, file)

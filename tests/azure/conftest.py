import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

from holdfast.azure.cloud import Cloud
from tests.azure.arm import Arm, serving

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
TENANT = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
OBJECT = "99999999-8888-7777-6666-555555555555"
SECRET = "c2lnbmF0dXJl-must-never-be-shown"
USER = {"oid": OBJECT, "tid": TENANT, "upn": "dev@example.org", "idtyp": "user", "name": "Dev Eloper"}


def jwt(claims: dict[str, Any]) -> str:
    """A token as Entra ID makes them, but for its signature."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)
    ]
    return ".".join([*parts, SECRET])


@dataclass
class StubCredential:
    """Signed in as whoever the claims say."""

    claims: dict[str, Any] = field(default_factory=lambda: dict(USER))
    scopes: list[str] = field(default_factory=list)

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.scopes += scopes
        return AccessToken(jwt(self.claims), 4_000_000_000)


class PlainBearer(SansIOHTTPPolicy[HttpRequest, Any]):
    """Sends the token over plain HTTP too, which the SDK's own policy refuses: the fake has no TLS."""

    def __init__(self, credential: StubCredential) -> None:
        super().__init__()
        self._credential = credential

    def on_request(self, request: PipelineRequest[HttpRequest]) -> None:
        token = self._credential.get_token("https://management.azure.com/.default").token
        request.http_request.headers["Authorization"] = f"Bearer {token}"


@dataclass
class Azure:
    """The fake, and how to reach it. `slept` is how long the SDK would have waited."""

    arm: Arm
    credential: StubCredential = field(default_factory=StubCredential)
    slept: list[float] = field(default_factory=list)

    def cloud(
        self, credential: Any = None, subscription: str = SUBSCRIPTION, poll_seconds: float = 0
    ) -> Cloud:
        login = credential or self.credential
        transport = RequestsTransport()
        transport.sleep = self.slept.append
        return Cloud(
            login,
            subscription,
            poll_seconds=poll_seconds,
            base_url=self.arm.url,
            authentication_policy=PlainBearer(login),
            transport=transport,
        )


@pytest.fixture
def azure() -> Iterator[Azure]:
    with serving() as arm:
        yield Azure(arm)


@pytest.fixture
def cloud(azure: Azure) -> Iterator[Cloud]:
    with azure.cloud() as cloud:
        yield cloud

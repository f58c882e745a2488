"""The OpenAPI document, and requests made up from it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.web.access import Role
from holdfast.web.openapi import make_openapi
from holdfast.web.routing import Route
from holdfast.web.table import TABLE
from tests.web.serving import Serving, bearer

EXAMPLES = 6
CHECKS = [
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(json.loads(make_openapi(TABLE.routes)))
# Streams do not end; to sign in is limited, and tested elsewhere.
CALLED = [route for route in TABLE.routes if not route.streams and route.name != "sign_in"]
CASES = [
    (route, mode)
    for route in CALLED
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or route.query or route.body
]


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as opened:
        yield opened


def refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in refs(inner)]
    return [each for inner in value for each in refs(inner)] if isinstance(value, list) else []


def test_the_document_describes_every_route_and_points_nowhere_else(server: Serving) -> None:
    document = server[Role.READ].get("/api/v1/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.path, route.method) for route in TABLE.routes}
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    assert all(each["summary"].endswith(".") for each in operations)
    for ref in refs(document):
        found: Any = document
        for part in ref.removeprefix("#/").split("/"):
            found = found[part]
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name


@pytest.mark.parametrize(
    ("route", "mode"), CASES, ids=[f"{route.name}-{mode.value}" for route, mode in CASES]
)
def test_made_up_requests_are_answered_as_the_document_says(
    server: Serving, session: requests.Session, route: Route, mode: GenerationMode
) -> None:
    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=SCHEMA[route.path][route.method].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case) -> None:
        case.call_and_validate(
            base_url=server.url, headers=bearer(Role.ADMIN), checks=CHECKS, session=session, timeout=20
        )

    check()

"""The OpenAPI document, made from the table of routes and the structs that they declare."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast import __version__
from holdfast.web.enqueue import IDEMPOTENCY_KEY
from holdfast.web.fields import Name
from holdfast.web.problem import JSON, ProblemDocument
from holdfast.web.routing import Route
from holdfast.web.sessions import COOKIE, CSRF_HEADER
from holdfast.web.watching import HealthAnswer

_REF = "#/components/schemas/{name}"
_ERRORS = {
    400: "What was sent is wrong; `field` names the part.",
    401: "Nobody is signed in, and no token that is known was sent.",
    403: "The role does not allow it, or a page of another site asked.",
    404: "There is no such thing.",
    405: "The path takes other methods; the header Allow names them.",
    409: "Something else stands there: another version, state, key or id.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server is not meant to be reached under that name.",
    422: "No such task is known, or the arguments do not fit it.",
    429: "Too many tries, or too many streams.",
    500: "A defect; the log names it under the id of the request.",
    503: "The store is away, or its answer was lost.",
    504: "It took longer than a request may.",
}
_ALWAYS = (400, 401, 403, 421, 429, 500, 503, 504)


def make_openapi(routes: Iterable[Route]) -> bytes:
    """The document, as JSON."""
    routes = list(routes)
    kinds = [ProblemDocument, *_kinds(routes)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    known = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known, components)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "Background jobs: seen and steered. Instants are UTC in ISO 8601, durations are "
            "seconds, tokens of leases and locks are text.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": [], "csrf": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                "csrf": {"type": "apiKey", "in": "header", "name": CSRF_HEADER},
            },
            "responses": {
                str(status): {
                    "description": text,
                    "content": {JSON: {"schema": known[id(ProblemDocument)]}},
                }
                for status, text in _ERRORS.items()
            },
        },
    }
    return msgspec.json.encode(document)


def _kinds(routes: Iterable[Route]) -> list[Any]:
    found: dict[int, Any] = {}
    for route in routes:
        for kind in (route.query, route.body, route.answer):
            if kind is not None and kind is not Response:
                found[id(kind)] = kind
    return list(found.values())


def _operation(route: Route, known: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    summary, _, description = route.text.partition("\n\n")
    noun = route.segments[2] if route.path.startswith("/api") else "watching"
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": " ".join(summary.split()),
        "tags": [noun],
        "parameters": [*_path_parameters(route), *_query_parameters(route, known, components)],
        "responses": _responses(route, known),
    }
    if description:
        operation["description"] = description
    if route.role is None:
        operation["security"] = []
    else:
        operation["x-least-role"] = route.role.value
    if route.name == "enqueue":
        operation["parameters"].append(
            {
                "name": IDEMPOTENCY_KEY,
                "in": "header",
                "description": "The job's idempotency key; the same key gives the same job.",
                "schema": msgspec.json.schema(Name),
            }
        )
    if route.body is not None:
        required = any(field.required for field in msgspec.structs.fields(route.body))
        operation["requestBody"] = {
            "required": required,
            "content": {JSON: {"schema": known[id(route.body)]}},
        }
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The {name}; a slash in it is written as %2F.",
            "schema": {"type": "string", "minLength": 1},
        }
        for name in route.parameters
    ]


def _query_parameters(
    route: Route, known: dict[int, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = components[known[id(route.query)]["$ref"].rpartition("/")[2]]
    hints = typing.get_type_hints(route.query)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": _without_null(each),
            **({"style": "form", "explode": True} if typing.get_origin(hints[name]) is tuple else {}),
        }
        for name, each in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not there has no value; there is no way to write null into a URL."""
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(choices) == 1:
        schema = {**{key: value for key, value in schema.items() if key != "anyOf"}, **choices[0]}
    return {key: value for key, value in schema.items() if not (key == "default" and value is None)}


def _responses(route: Route, known: dict[int, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if route.answer is Response:
        answer["content"] = {route.produces: {"schema": {} if route.produces == JSON else {"type": "string"}}}
    elif route.answer is not None:
        answer["content"] = {route.produces: {"schema": known[id(route.answer)]}}
    responses = {str(status): answer for status in (route.status, *route.also)}
    for status in _errors(route):
        responses.setdefault(str(status), {"$ref": f"#/components/responses/{status}"})
    return dict(sorted(responses.items()))


def _errors(route: Route) -> set[int]:
    found = {*_ALWAYS}
    if route.parameters or route.name == "sign_in":
        found.add(404)
    if route.changes:
        found |= {409, 413, 415, 422}
    if route.answer is HealthAnswer:
        found.discard(503)
    return found

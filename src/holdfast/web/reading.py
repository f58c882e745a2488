"""Reads what a request brings: query parameters and a JSON body, into the structs that routes declare."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.web.problem import JSON, Problem

_PLACE = re.compile(r" - at `(?:key in )?\$\.?(?P<path>.*?)`\Z", re.DOTALL)
_LONGEST_QUERY = 16_384
_LEAST_BODY = 1_024


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request that takes none."""


def read_query(request: Request, kind: type[Any] | None) -> Any:
    """The query parameters; those that nobody declared are refused, because they are mistakes."""
    text = request.scope.get("query_string", b"")
    if len(text) > _LONGEST_QUERY:
        raise Problem(400, "invalid", f"the query is longer than {_LONGEST_QUERY} bytes")
    several = frozenset[str]() if kind is None else _lists(kind)
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in several:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Problem(400, "invalid", "it is given twice", name[:60])
        else:
            given[name] = value
    if kind is None:
        if given:
            raise Problem(400, "invalid", "there is no such parameter", next(iter(given))[:60])
        return None
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def _lists(kind: type[Any]) -> frozenset[str]:
    """The parameters that may be given several times."""
    hints = typing.get_type_hints(kind)
    return frozenset(name for name, hint in hints.items() if typing.get_origin(hint) is tuple)


async def read_body(request: Request, kind: type[Any] | None, limit: int) -> Any:
    """The body; 413 before more of it is read than may come, 415 for what is not JSON.

    One of which nothing is required may be left out.
    """
    if request.method in ("GET", "HEAD"):
        return None
    wanted = Nothing if kind is None else kind
    body = await _bytes(request, _LEAST_BODY if kind is None else limit)
    if not body and not any(each.required for each in msgspec.structs.fields(wanted)):
        return wanted()
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != JSON:
        raise Problem(415, "unsupported", f"the body must be {JSON}", "Content-Type")
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Problem(400, "invalid", f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "invalid", "the body is nested too deeply") from None


async def _bytes(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if not (announced.isascii() and announced.isdigit()) or int(announced[:20]) > limit:
        raise _too_large(limit)
    read = bytearray()
    try:
        async for part in request.stream():
            read += part
            if len(read) > limit:
                raise _too_large(limit)
    except ClientDisconnect:
        raise Problem(400, "invalid", "the body ended early") from None
    return bytes(read)


def _too_large(limit: int) -> Problem:
    # What was not read must not be taken for the next request.
    message = f"the body is larger than {limit} bytes"
    return Problem(413, "too_large", message, headers={"Connection": "close"})


def _invalid(error: msgspec.ValidationError) -> Problem:
    text = str(error)
    found = _PLACE.search(text)
    if found is None:
        return Problem(400, "invalid", text)
    return Problem(400, "invalid", text[: found.start()], found["path"][:100] or None)

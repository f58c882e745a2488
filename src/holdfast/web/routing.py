"""The table of routes: what each takes, gives and needs is declared once, by its handler's annotations."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import Scope

from holdfast.app import Holdfast
from holdfast.web.access import Identity, Role
from holdfast.web.problem import JSON
from holdfast.web.site import Site

Q = TypeVar("Q")
B = TypeVar("B")
H = TypeVar("H", bound="Handler")

API = "/api/v1"


@dataclass(slots=True, kw_only=True)
class Incoming(Generic[Q, B]):
    """One request, read and allowed. `touched` names what it changes, for the audit."""

    site: Site
    request: Request
    identity: Identity
    path: dict[str, str]
    query: Q
    body: B
    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    touched: list[str] = field(default_factory=list[str])

    @property
    def app(self) -> Holdfast:
        return self.site.app


Handler: TypeAlias = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked. `role` is the least that may; None for those who are nobody yet.

    `query` and `body` are the structs that it is read into, None if there is nothing to read. `answer` is the
    type of what is given back, None for nothing.
    """

    method: str
    path: str
    role: Role | None
    handler: Handler
    query: type[Any] | None
    body: type[Any] | None
    answer: Any
    status: int
    also: tuple[int, ...]
    produces: str
    audited: bool
    streams: bool

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD")

    @property
    def text(self) -> str:
        return inspect.cleandoc(self.handler.__doc__ or "")

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(each[1:-1] for each in self.segments if each.startswith("{"))


class Routes:
    """The routes of one noun, in the order in which they are declared."""

    def __init__(self, base: str = API) -> None:
        self._base = base
        self._routes: list[Route] = []

    def __iter__(self) -> typing.Iterator[Route]:
        return iter(self._routes)

    def add(
        self,
        method: str,
        path: str,
        role: Role | None,
        *,
        status: int = 200,
        also: tuple[int, ...] = (),
        produces: str = JSON,
        audited: bool | None = None,
        streams: bool = False,
    ) -> Callable[[H], H]:
        """Declares a handler `async def name(incoming: Incoming[Query, Body]) -> Answer`."""

        def declare(handler: H) -> H:
            hints = typing.get_type_hints(handler)
            query, body = typing.get_args(hints["incoming"])
            self._routes.append(
                Route(
                    method=method,
                    path=self._base + path,
                    role=role,
                    handler=handler,
                    query=_or_none(query),
                    body=_or_none(body),
                    answer=_or_none(hints["return"]),
                    status=status,
                    also=also,
                    produces=produces,
                    audited=method != "GET" if audited is None else audited,
                    streams=streams,
                )
            )
            return handler

        return declare


def _or_none(kind: Any) -> Any:
    return None if kind is type(None) else kind


@dataclass(frozen=True, slots=True)
class Match:
    """The routes of one path, by method, and what the path says."""

    methods: dict[str, Route]
    path: dict[str, str]

    @property
    def allow(self) -> str:
        names = {*self.methods, "OPTIONS", *(("HEAD",) if "GET" in self.methods else ())}
        return ", ".join(sorted(names))


class Table:
    """All routes. Paths are split before they are decoded: a name may have a slash, written as %2F."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._by_shape: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in self.routes:
            self._by_shape.setdefault(route.segments, {})[route.method] = route

    def match(self, segments: tuple[str, ...]) -> Match | None:
        """The routes that fit; those with a word where others have a parameter go first."""
        best: tuple[int, Match] | None = None
        for shape, methods in self._by_shape.items():
            found = _read(shape, segments)
            if found is not None and (best is None or len(found) < best[0]):
                best = len(found), Match(methods, found)
        return None if best is None else best[1]


def _read(shape: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(shape) != len(segments):
        return None
    found: dict[str, str] = {}
    for wanted, given in zip(shape, segments, strict=True):
        if wanted.startswith("{"):
            if not given:
                return None
            found[wanted[1:-1]] = given
        elif wanted != given:
            return None
    return found


def _mount(scope: Scope) -> str:
    """The part of the path above us. A prefix that a proxy has taken off is in `root_path` nevertheless."""
    root: str = scope.get("root_path", "").rstrip("/")
    outermost: str = scope.get("app_root_path", root).rstrip("/")
    for prefix in (root, root.removeprefix(outermost)):
        if scope["path"] == prefix or scope["path"].startswith(f"{prefix}/"):
            return prefix
    return ""


def segments_of(scope: Scope) -> tuple[str, ...]:
    """The parts of the path below the mount, each decoded by itself."""
    raw: bytes | None = scope.get("raw_path")
    text = scope["path"] if raw is None else raw.decode("latin-1").partition("?")[0]
    parts = text.split("/")
    below = len(_mount(scope).split("/"))
    # What does not decode becomes a character that no name has, and is not found.
    return tuple(unquote(part, errors="replace") for part in parts[below:])

"""What all requests share: the application, who may enter, the sampler, and the bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from holdfast.app import Holdfast
from holdfast.telemetry.metrics import Metrics
from holdfast.web.access import Identity, Tokens
from holdfast.web.link import Link
from holdfast.web.origin import Hosts
from holdfast.web.sampler import Sampler
from holdfast.web.sessions import Sessions
from holdfast.web.throttle import Throttle

Identify = Callable[[Request], Identity | Awaitable[Identity | None] | None]
"""Tells who asks, by the host application's own means; None for nobody."""


@dataclass(slots=True, kw_only=True)
class Bounds:
    """How much one request may take."""

    budget_seconds: float = 10.0
    body_bytes: int = 1_048_576
    streams_each: int = 10
    streams: int = 200
    stream_seconds: float = 3600.0


@dataclass(slots=True, kw_only=True)
class Site:
    """One HTTP face of an application. `hosts` is None where somebody else checks the Host header."""

    app: Holdfast
    tokens: Tokens
    identify: Identify | None
    hosts: Hosts | None
    bounds: Bounds
    link: Link
    sampler: Sampler
    metrics: Metrics
    sessions: Sessions = field(default_factory=Sessions)
    sign_ins: Throttle = field(default_factory=lambda: Throttle(10, 60))
    streaming: Counter[str] = field(default_factory=Counter[str])
    openapi: bytes = b""
    is_closing: bool = False

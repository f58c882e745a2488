"""Where a worker is asked whether it is well, and for its metrics: on a port, or by a file.

On threads of its own, so that it answers while the event loop is blocked; with the standard library's HTTP
server, because three short answers need no framework (docs/decisions/0021-health.md).
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import logging
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from holdfast.model.errors import ConfigurationError
from holdfast.model.health import Health
from holdfast.telemetry.exposition import CONTENT_TYPE

log = logging.getLogger("holdfast.health")

JSON = "application/json"
AT_ONCE = 16
PATIENCE = 5.0
LIVE, READY, METRICS = "/health/live", "/health/ready", "/metrics"
NOTHING: Mapping[str, Callable[[], bytes]] = MappingProxyType({})


class Endpoint:
    """Answers on a port, or on a Unix socket if `host` is a path, inside its `with` block.

    `health` and `metrics` are called on threads of its own. With a `token`, metrics are only for who knows
    it; without one, only for this machine. On a Unix socket, `more` says what else can be asked for.
    """

    def __init__(
        self,
        host: str | Path,
        port: int,
        health: Callable[[], Health],
        metrics: Callable[[], str],
        *,
        token: str | None = None,
        more: Mapping[str, Callable[[], bytes]] = NOTHING,
    ) -> None:
        self.health = health
        self.metrics = metrics
        self.more = more
        self._token = token
        self._is_near = isinstance(host, Path) or _is_loopback(host)
        try:
            self._server = _listen(host, port, self)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}: {error}", setting="health_port"
            ) from None
        if not self._is_near and token is None:
            log.warning(
                "metrics are not told to other machines; set health_token", extra={"fields": {"host": host}}
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="holdfast-health", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on; 0 for a Unix socket."""
        return self._server.socket.getsockname()[1] if isinstance(self._server, _Server) else 0

    def __enter__(self) -> Self:
        self._thread.start()
        if self.port:
            log.info("health is told", extra={"fields": {"port": self.port}})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def may_read(self, host: str, authorization: str) -> bool:
        """Whether who sends these headers may have the metrics.

        A page in a browser on this machine may not, whatever name it has made to mean this machine.
        """
        if self._token is not None:
            scheme, _, given = authorization.partition(" ")
            return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), self._token.encode())
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return self._is_near and (not name or _is_loopback(name.strip("[]")))


class _Handler(BaseHTTPRequestHandler):
    server_version = "holdfast"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        server: Any = self.server
        endpoint: Endpoint = server.endpoint
        path = self.path.partition("?")[0]
        if path in {LIVE, READY}:
            health = endpoint.health()
            self._tell_health(health, is_well=health.live if path == LIVE else health.ready)
        elif path == METRICS:
            if endpoint.may_read(self.headers.get("Host", ""), self.headers.get("Authorization", "")):
                self._answer(HTTPStatus.OK, endpoint.metrics().encode(), CONTENT_TYPE)
            else:
                self._refuse(HTTPStatus.UNAUTHORIZED, "give health_token as bearer token", "Bearer")
        elif path in endpoint.more:
            self._answer(HTTPStatus.OK, endpoint.more[path](), JSON)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"there are {LIVE}, {READY} and {METRICS}")

    do_HEAD = do_GET  # noqa: N815  the standard library's name

    def _tell_health(self, health: Health, *, is_well: bool) -> None:
        body = {"status": "ok" if is_well else "red", "reasons": health.reasons}
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, json.dumps(body).encode(), JSON)

    def _refuse(self, status: HTTPStatus, why: str, scheme: str | None = None) -> None:
        self._answer(status, json.dumps({"error": why}).encode(), JSON, scheme)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, scheme: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if scheme is not None:
            self.send_header("WWW-Authenticate", scheme)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds."""


class _Threaded(socketserver.ThreadingMixIn):
    """One thread for each connection, as far as there are not too many; others are hung up on.

    So is whoever is not done in time, however slowly something still comes.
    """

    daemon_threads = True
    block_on_close = False
    endpoint: Endpoint

    def __init__(self, address: Any, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._until: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)  # type: ignore[call-arg]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            self._until[request] = time.monotonic() + PATIENCE
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # no thread could be started
                self._release(request)
                raise
        else:
            self.shutdown_request(request)  # type: ignore[attr-defined]

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._release(request)

    def _release(self, request: socket.socket) -> None:
        del self._until[request]
        self._free.release()

    def service_actions(self) -> None:
        """Called by the server's loop between two connections, and while there are none."""
        now = time.monotonic()
        for request, until in self._until.copy().items():
            if now >= until:
                with contextlib.suppress(OSError):  # it has just been closed
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a question about health was not answered", exc_info=sys.exc_info())


class _Server(_Threaded, socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 64


class _Server6(_Server):
    address_family = socket.AF_INET6


class _UnixServer(_Threaded, socketserver.UnixStreamServer):
    request_queue_size = 64


def _listen(host: str | Path, port: int, endpoint: Endpoint) -> _Server | _UnixServer:
    if isinstance(host, Path):
        host.unlink(missing_ok=True)  # left behind by a process that was killed
        return _UnixServer(str(host), endpoint)
    return (_Server6 if ":" in host else _Server)((host, port), endpoint)


def _is_loopback(host: str) -> bool:
    if host.lower() in {"localhost", "localhost.localdomain"}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HealthFile:
    """Writes how a worker is into a file every second, inside its `with` block; then the file is gone.

    Who reads it looks at its age as well: a process that was killed writes no more.
    """

    def __init__(self, path: Path, health: Callable[[], Health], every: float = 1.0) -> None:
        self._path = path
        self._health = health
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="holdfast-health-file", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._write()
        except OSError as error:
            raise ConfigurationError(
                f"cannot write {str(self._path)!r}: {error.strerror}", setting="health_file"
            ) from None
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE)
        self._path.unlink(missing_ok=True)

    def _keep(self) -> None:
        while not self._stopping.wait(self._every):
            try:
                self._write()
            except Exception as error:  # noqa: BLE001  a file that grows old says that the process is dead
                log.warning("health cannot be written", extra={"fields": {"error": str(error)}})

    def _write(self) -> None:
        health = self._health()
        told = {"live": health.live, "ready": health.ready, "reasons": health.reasons}
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        beside.write_text(json.dumps(told) + "\n", encoding="utf-8")
        beside.replace(self._path)

"""A stand-in for Azure Resource Manager on loopback, as far as the SDK asks it: it keeps what it is given.

Making a server or a database, and deleting a group, are long-running operations as in Azure. A test can put a
fault in the way of one request, and sees every request that was made.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]


@dataclass
class Fault:
    """One answer that stands in for the next request that fits."""

    method: str
    path: str
    status: int
    body: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def fits(self, method: str, path: str) -> bool:
        return method == self.method and path.endswith(self.path)


def refusal(code: str, message: str) -> Json:
    return {"error": {"code": code, "message": message}}


@dataclass
class Arm:
    """What this Azure has, and what was asked of it. Paths begin below the subscription."""

    url: str = ""
    resources: dict[str, Json] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    failing: dict[str, Json] = field(default_factory=dict)
    """Operations on these paths are accepted, and end in this error."""
    taken: set[str] = field(default_factory=set)
    authorizations: set[str] = field(default_factory=set)
    _operations: list[tuple[str, Json | None, int]] = field(default_factory=list)

    def changes(self) -> list[tuple[str, str]]:
        """Every request that could change something."""
        asks = ("/checkNameAvailability",)
        return [
            (method, path) for method, path in self.requests if method != "GET" and not path.endswith(asks)
        ]

    def answer(self, method: str, target: str, body: Json) -> tuple[int, dict[str, str], Json | None]:
        parts = urlsplit(target)
        path = re.sub(r"^/subscriptions/[^/]+", "", parts.path)
        path = path.replace(
            "/resourcegroups/", "/resourceGroups/"
        )  # the SDK writes both, and Azure takes both
        self.requests.append((method, path))
        self.queries.append(parse_qs(parts.query))
        for fault in self.faults:
            if fault.fits(method, path):
                self.faults.remove(fault)
                return fault.status, fault.headers, fault.body
        if path.startswith("/operations/"):
            return self._progress(int(path.rpartition("/")[2]))
        match method:
            case "GET":
                return self._get(path, self.queries[-1])
            case "PUT":
                return self._put(path, body)
            case "DELETE":
                return self._delete(path)
            case "POST" if path.endswith("/checkNameAvailability"):
                free = body["name"] not in self.taken
                return 200, {}, {"available": free, "name": body["name"], "message": "Somebody has it."}
            case _:
                return 405, {}, refusal("MethodNotAllowed", method)

    def _get(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], Json | None]:
        if path.endswith(("/resources", "/firewallRules")):
            start = path.removesuffix("/resources")
            depth = path.count("/") + 1
            listed = [
                body
                for name, body in sorted(self.resources.items())
                if name.startswith(start + "/") and (path.endswith("/resources") or name.count("/") == depth)
            ]
            return 200, {}, {"value": listed}
        found = self.resources.get(path)
        if found is None:
            return 404, {}, refusal("ResourceNotFound", f"{path} was not found.")
        if _kind(path) == "servers" and query.get("$expand") != ["administrators/activedirectory"]:
            hidden = {name: value for name, value in found["properties"].items() if name != "administrators"}
            found = {**found, "properties": hidden}
        return 200, {}, found

    def _put(self, path: str, body: Json) -> tuple[int, dict[str, str], Json | None]:
        parent = path.rsplit("/", 2)[0] if "/providers/" in path else ""
        parent = parent.removesuffix("/providers/Microsoft.Sql")
        if parent and parent not in self.resources:
            return 404, {}, refusal("ParentResourceNotFound", f"{parent} was not found.")
        made = {**body, "id": path, "name": path.rpartition("/")[2], "type": _kind(path)}
        made.setdefault("properties", {})["provisioningState"] = "Succeeded"
        if _kind(path) in {"servers", "databases"}:
            return self._accept(path, made)
        self.resources[path] = made
        return 201, {}, made

    def _delete(self, path: str) -> tuple[int, dict[str, str], Json | None]:
        status, headers, _ = self._accept(path, None)
        return status, {"Location": headers["Azure-AsyncOperation"]}, None

    def _accept(self, path: str, made: Json | None) -> tuple[int, dict[str, str], Json | None]:
        self._operations.append((path, made, 0))
        return 202, {"Azure-AsyncOperation": f"{self.url}/operations/{len(self._operations) - 1}"}, None

    def _progress(self, number: int) -> tuple[int, dict[str, str], Json | None]:
        path, made, asked = self._operations[number]
        self._operations[number] = (path, made, asked + 1)
        if asked == 0:
            return (202 if made is None else 200), {}, {"status": "InProgress"}
        if path in self.failing:
            return 200, {}, {"status": "Failed", **self.failing[path]}
        if made is None:
            self.resources = {
                name: each for name, each in self.resources.items() if not name.startswith(path)
            }
        else:
            self.resources[path] = made
        return 200, {}, {"status": "Succeeded"}


def _kind(path: str) -> str:
    return path.split("/")[-2]


@contextmanager
def serving() -> Iterator[Arm]:
    """An Azure of its own on a port of its own."""
    arm = Arm()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            arm.authorizations.add(str(self.headers.get("Authorization")))
            status, headers, body = arm.answer(
                self.command, self.path, json.loads(self.rfile.read(length) or "{}")
            )
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_DELETE = do_POST = do_PATCH = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    arm.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield arm
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

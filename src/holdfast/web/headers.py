"""Headers that every answer has, so that no browser does with it what it should not."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_ALWAYS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def guarded(send: Send, request_id: str, *, is_head: bool) -> Send:
    """Sends with these headers. Data is kept by nobody on the way; an answer to HEAD has no body."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _ALWAYS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
            headers["X-Request-Id"] = request_id
        elif is_head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_guarded

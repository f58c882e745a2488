"""One connection to a Redis server, on which any number of callers may speak at once.

Requests are answered in their order, and every answer is read whether or not somebody still waits for it. So
a caller that was cancelled leaves nothing behind that another could take for its own.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

from holdfast.stores.redis.address import Address

_hiredis: Any = import_module("hiredis")
_pack: Callable[[tuple[object, ...]], bytes] = _hiredis.pack_command

Heard = Callable[[bytes, bytes], None]
"""Is called with the channel and what was told there."""

NAME: Final = "holdfast"
_NOTHING: Final = object()
_LOOKS: Final = 4


class ReplyError(Exception):
    """The server's word that it did not do what it was asked; `code` is the first of its words."""

    @property
    def code(self) -> str:
        return str(self).split(" ", 1)[0]


class WireLost(Exception):
    """There is no connection any more, and no word from the server."""


FAULTS: tuple[type[Exception], ...] = (OSError, TimeoutError, WireLost, ReplyError)
"""All that may be wrong with a server or the way to it."""


class Wire(asyncio.Protocol):
    """A connection. `heard` is called with what is published on the channels that it subscribed to.

    One that leaves a call unanswered for `patience` seconds is given up, even if its caller has gone: those
    who wait for a shorter time would else never get another.
    """

    def __init__(self, heard: Heard | None, patience: float) -> None:
        self._reader = _hiredis.Reader(protocolError=WireLost, replyError=ReplyError, notEnoughData=_NOTHING)
        self._heard = heard
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reason = "not connected"
        self._is_retired = False
        self._patience = patience
        self._watch: asyncio.TimerHandle | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_open(self) -> bool:
        """Whether something can be asked."""
        return self._transport is not None and not self._is_retired

    def ask(self, *args: object) -> asyncio.Future[Any]:
        """Sends a command; the answer will be there, or a ReplyError, or WireLost."""
        transport = self._transport
        if transport is None:
            raise WireLost(self._reason)
        answer = self._loop.create_future()
        self._waiting.append(answer)
        if self._watch is None:
            self._watch = self._loop.call_later(self._patience / _LOOKS, self._look, answer, 1)
        transport.write(_pack(args))
        return answer

    def close(self, reason: str = "closed") -> None:
        """Hangs up at once; whoever waits is told."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._reason = reason
        if self._watch is not None:
            self._watch.cancel()
        transport.abort()
        for answer in self._waiting:
            self._answer(answer, WireLost(reason))
        self._waiting.clear()

    async def end(self) -> None:
        """Hangs up, and waits until the event loop has nothing of it any more."""
        if self._transport is not None:
            self.close()
            await asyncio.shield(self.gone)

    def retire(self) -> None:
        """Hangs up once everybody who waits has an answer."""
        self._is_retired = True
        if not self._waiting:
            self.close("retired")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop are like it, but not made from it.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(f"the connection was lost{f' ({exc})' if exc else ''}")
        self.gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._next()) is not _NOTHING:
            if self._heard is not None and _is_message(reply):
                self._heard(reply[1], reply[2])
            elif self._waiting:
                self._answer(self._waiting.popleft(), reply)
        if self._is_retired and not self._waiting:
            self.close("retired")

    def _look(self, first: asyncio.Future[Any], looks: int) -> None:
        """Hangs up if what is the first to be answered was so at as many looks as make the patience."""
        self._watch = None
        if not self._waiting:
            return
        if self._waiting[0] is not first:
            first, looks = self._waiting[0], 0
        if looks >= _LOOKS:
            self.close(f"no answer within {self._patience:g} s")
        else:
            self._watch = self._loop.call_later(self._patience / _LOOKS, self._look, first, looks + 1)

    def _next(self) -> Any:
        try:
            return self._reader.gets()
        except WireLost as error:
            self.close(f"what came is not Redis: {error}")
            return _NOTHING

    @staticmethod
    def _answer(waiting: asyncio.Future[Any], reply: Any) -> None:
        if waiting.done():
            return
        if isinstance(reply, (ReplyError, WireLost)):
            waiting.set_exception(reply)
            waiting.exception()  # has been seen, so that nothing is logged if its caller gave up before
        else:
            waiting.set_result(reply)


def _is_message(reply: Any) -> bool:
    return isinstance(reply, list) and reply[:1] == [b"message"]


async def connect(
    address: Address,
    server: tuple[str, int],
    heard: Heard | None = None,
    *,
    is_sentinel: bool = False,
) -> Wire:
    """A connection to this server, signed in and set to its database.

    Where several may be asked, each has its share of the time: a machine that is gone says nothing.
    """
    async with asyncio.timeout(address.patience / max(1, len(address.hosts))):
        wire = await _opened(address, server, heard)
        try:
            credentials = address.sentinel_credentials if is_sentinel else address.credentials
            answers: list[asyncio.Future[Any]] = []
            if credentials.get("password"):
                words = [credentials[part] for part in ("username", "password") if part in credentials]
                answers.append(wire.ask("AUTH", *words))
            answers.append(wire.ask("CLIENT", "SETNAME", NAME))
            if address.db and not is_sentinel:
                answers.append(wire.ask("SELECT", address.db))
            for answer in answers:
                await answer
        except BaseException:
            wire.close()
            raise
    return wire


async def _opened(address: Address, server: tuple[str, int], heard: Heard | None) -> Wire:
    loop = asyncio.get_running_loop()
    context = _context(address) if address.secure else None
    if address.kind == "unix":
        _, wire = await loop.create_unix_connection(lambda: Wire(heard, address.patience), address.path)
    else:
        _, wire = await loop.create_connection(lambda: Wire(heard, address.patience), *server, ssl=context)
    return wire


def _context(address: Address) -> ssl.SSLContext:
    tls = address.tls
    context = ssl.create_default_context(cafile=tls.get("ssl_ca_certs"), capath=tls.get("ssl_ca_path"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.get("ssl_check_hostname") is False or tls.get("ssl_cert_reqs") == "none":
        context.check_hostname = False
    if tls.get("ssl_cert_reqs") == "none":
        context.verify_mode = ssl.CERT_NONE
    if "ssl_certfile" in tls:
        context.load_cert_chain(tls["ssl_certfile"], tls.get("ssl_keyfile"))
    return context

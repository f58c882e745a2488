"""`holdfast web`: who may enter by which address, and the server itself."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import uvicorn

from holdfast.app import Holdfast
from holdfast.model.errors import ConfigurationError
from holdfast.web.access import SHORT, Role, Token, new_secret, parse_tokens
from holdfast.web.making import create
from holdfast.web.origin import LOCAL, Hosts, is_loopback

_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104  refused without credentials  # nosec B104
_BACKLOG = 128
_MOST_CONNECTIONS = 1_000
_GOODBYE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """An address, the tokens that open it, and the names that it goes by.

    `link` is the token that was made for this run, where none was given.
    """

    host: str
    tokens: tuple[Token, ...]
    hosts: Hosts
    link: str | None
    short: bool

    @classmethod
    def of(
        cls,
        host: str,
        *,
        token: str | None = None,
        file: tuple[str, str] | None = None,
        allowed: Iterable[str] = (),
    ) -> Entrance:
        """What was asked for; ConfigurationError if others could enter without a token."""
        tokens = [] if file is None else parse_tokens(file[1], file[0])
        if file is not None and not tokens:
            raise ConfigurationError(f"there is no token in {file[0]}; 'holdfast token NAME' makes one")
        if token is not None:
            if not token.strip():
                raise ConfigurationError("the token is empty", setting="--token")
            tokens.append(Token.of("admin", Role.ADMIN, token.strip()))
        link: str | None = None
        if not tokens:
            if not is_loopback(host):
                raise _open_to_others(host)
            link = new_secret()
            tokens.append(Token.of("admin", Role.ADMIN, link))
        names = {*LOCAL, host, f"[{host}]", *(() if is_loopback(host) else (socket.gethostname(),))}
        return cls(
            host=host,
            tokens=tuple(tokens),
            hosts=Hosts(names, allowed=allowed, addresses=not is_loopback(host)),
            link=link,
            short=token is not None and len(token.strip()) < SHORT,
        )

    def warnings(self, *, has_tls: bool) -> Iterator[str]:
        if self.short:
            yield f"a token of fewer than {SHORT} characters can be guessed; 'holdfast token' makes one"
        if not has_tls and not is_loopback(self.host):
            yield "tokens and data travel in the clear; use --tls-cert and --tls-key, or a proxy with TLS"

    def listen(self, port: int) -> socket.socket:
        """The socket that listens; OSError if it cannot."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.create_server((self.host, port), family=family, backlog=_BACKLOG)
        if self.link is not None and not is_loopback(listening.getsockname()[0]):
            listening.close()
            raise _open_to_others(self.host)
        return listening

    def url(self, listening: socket.socket, *, is_https: bool) -> str:
        """Where it can be found, with the token that was made for this run."""
        name = "127.0.0.1" if self.host in _EVERYWHERE else self.host
        shown = f"[{name}]" if ":" in name else name
        port = listening.getsockname()[1]
        sign_in = "" if self.link is None else f"#token={self.link}"
        return f"{'https' if is_https else 'http'}://{shown}:{port}/{sign_in}"


def _open_to_others(host: str) -> ConfigurationError:
    return ConfigurationError(
        f"{host} can be reached by others, and anybody could steer your jobs; give --token (or "
        "HOLDFAST_WEB_TOKEN), or --tokens-file, or listen on 127.0.0.1",
        setting="--host",
    )


class _Server(uvicorn.Server):
    """Tells when it is ready to be asked."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def serve(
    app: Holdfast,
    entrance: Entrance,
    listening: socket.socket,
    *,
    tls: tuple[str, str] | None = None,
    proxy: str | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves until a signal comes. Open streams are ended, and what is under way is answered."""
    web = create(app, tokens=entrance.tokens, hosts=entrance.hosts)
    logging.getLogger("uvicorn.error").addFilter(_says_more)
    config = uvicorn.Config(
        web,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy,
        lifespan="on",
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
        ssl_certfile=None if tls is None else tls[0],
        ssl_keyfile=None if tls is None else tls[1],
    )
    _Server(config, ready).run(sockets=[listening])
    if web.failure is not None:
        raise web.failure


def _says_more(record: logging.LogRecord) -> bool:
    """Why it does not start is said by whoever started it, in one line."""
    return "startup failed" not in record.getMessage()

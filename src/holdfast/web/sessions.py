"""Sessions of people: kept here in memory, known to the browser by a random cookie only."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.web.access import Identity

COOKIE = "holdfast_session"
CSRF_HEADER = "X-Holdfast-CSRF"
LONGEST_SECONDS = 12 * 3600.0
IDLE_SECONDS = 2 * 3600.0
_MOST = 1_000


@dataclass(slots=True, eq=False)
class Session:
    """One signed-in browser. `csrf` proves that a change comes from a page that was given it."""

    identity: Identity
    ends: float
    seen: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    is_open: bool = True

    def proves(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.csrf.encode())


class Sessions:
    """All sessions of this process; when there are too many, the one unused for longest ends."""

    def __init__(
        self,
        *,
        longest_seconds: float = LONGEST_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest = longest_seconds
        self._idle = idle_seconds
        self._clock = clock
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def begin(self, identity: Identity) -> str:
        """A new session; the value of its cookie."""
        now = self._clock()
        cookie = secrets.token_urlsafe(32)
        self._open[_place(cookie)] = Session(identity, now + self._longest, now)
        while len(self._open) > _MOST:
            self._open.popitem(last=False)[1].is_open = False
        return cookie

    def find(self, cookie: str | None) -> Session | None:
        """The session of a cookie, if it has not ended; it then counts as used."""
        if not cookie:
            return None
        place = _place(cookie)
        session = self._open.get(place)
        if session is None:
            return None
        if self.has_ended(session):
            self.end(cookie)
            return None
        session.seen = self._clock()
        self._open.move_to_end(place)
        return session

    def has_ended(self, session: Session) -> bool:
        now = self._clock()
        return not session.is_open or now >= session.ends or now - session.seen >= self._idle

    def end(self, cookie: str) -> None:
        session = self._open.pop(_place(cookie), None)
        if session is not None:
            session.is_open = False


def _place(cookie: str) -> bytes:
    """Cookies are looked up by their hash: how long that takes tells nothing about those that are open."""
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()

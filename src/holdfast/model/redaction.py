"""What of stored arguments, results and event data may be shown to anybody who may look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from holdfast.model.sealed import unreadable
from holdfast.model.secret import HIDDEN, Secret, is_marked, unmarked

NAMES = frozenset(
    {
        *("password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets"),
        *("token", "api_key", "apikey", "api_keys", "access_key", "private_key", "secret_key", "signing_key"),
        *("encryption_key", "credential", "credentials", "authorization", "auth", "bearer", "cookie"),
        *("cookies", "jwt", "otp", "totp", "pin", "cvv", "cvc", "card_number", "credit_card", "iban", "ssn"),
        *("connection_string", "dsn", "session_id", "sessionid", "signature"),
        *("pass", "pass_word", "pass_words", "passwds", "pass_wd", "pass_phrase", "pass_code"),
        *("dbpassword", "dbpasswd", "dbpass", "userpassword", "userpasswd", "userpass"),
        *("tokens", "access_tokens", "refresh_tokens", "api_tokens", "auth_tokens", "bearer_tokens"),
        *("id_tokens", "session_tokens", "authtoken", "accesstoken", "refreshtoken", "apitoken"),
        *("secretkey", "accesskey", "privatekey", "signingkey", "encryptionkey"),
    }
)
"""Hidden wherever a key has these words in it: `password` hides `user_password` and `dbPassword` as well."""
_ALONE = frozenset({"tokens"})
"""Hidden only as the whole key: `max_tokens` is a number that people want to see."""
DEEPEST, MOST, LONGEST = 64, 20_000, 20_000
_NOTE = 40
_WHOLE = 10
"""So many on a page are each shown as one would be."""
CUT = "…"
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONGEST_KEY = 200
_PARAMETER = re.compile(r"(?i)([?&;][\w-]{0,60}=)[^&;#\s]*")
_SECRET_PARAMETER = re.compile(r"(?i)pass|pwd|secret|token|key|sig")


def redact_names(text: str) -> frozenset[str]:
    """The names that the setting means: the built-in ones, with those in the text, without those with `-`."""
    given = [name for name in (part.strip() for part in text.split(",")) if name]
    added = {_words(name) for name in given if not name.startswith("-")}
    return frozenset((NAMES | added) - {_words(name[1:]) for name in given if name.startswith("-")})


@dataclass(frozen=True, slots=True)
class Contents:
    """What a job carries, as JSON. `result` is None also if there is none."""

    arguments: object
    result: object


class Redactor:
    """Hides secrets in JSON: what is marked as one, what has the name of one, and passwords in URLs.

    It never raises, and gives no more than it may: depth, number of values and length of texts are bounded.
    """

    def __init__(self, names: Iterable[str] = NAMES) -> None:
        self._names = frozenset(names)
        self._known: dict[str, bool] = {}

    def redact(self, value: object, among: int = 1) -> object:
        """Decoded JSON, fit to be shown. Of one `among` many less is shown, so that all are not too much."""
        return _Redaction(self, max(1, among // _WHOLE)).of(value, 0)

    def shown(self, stored: bytes | None) -> object:
        """What is stored, fit to be shown; a text that says why if it cannot be read."""
        return self.redact(revealed(stored, keep_marks=True))

    def hides(self, key: str) -> bool:
        """Whether what has this name is hidden."""
        known = self._known.get(key)
        if known is None:
            words = f"_{_words(key[:_LONGEST_KEY])}_"
            known = any(
                f"_{name}_" == words if name in _ALONE else f"_{name}_" in words for name in self._names
            )
            if len(self._known) < 1_000:
                self._known[key] = known
        return known


class _Redaction:
    """One value's redaction, which counts what it has shown."""

    def __init__(self, redactor: Redactor, share: int) -> None:
        self._hides = redactor.hides
        self._left = MOST // share
        self._longest = LONGEST // share

    def of(self, value: object, depth: int) -> object:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            return CUT
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return redact_text(value, self._longest)
        if isinstance(value, Secret) or is_marked(value):
            return HIDDEN
        if isinstance(value, dict):
            return self._mapping(cast("dict[object, object]", value), depth)
        if isinstance(value, list | tuple):
            return self._sequence(cast("list[object]", value), depth)
        return f"<{type(value).__name__}>"

    def _mapping(self, value: dict[object, object], depth: int) -> dict[str, object]:
        shown: dict[str, object] = {}
        for key, item in value.items():
            if self._left <= 0:
                shown[CUT] = CUT
                break
            name = key if isinstance(key, str) else f"<{type(key).__name__}>"
            is_hidden = self._hides(name) and item is not None and not isinstance(item, bool)
            shown[_cut(name, _LONGEST_KEY)] = HIDDEN if is_hidden else self.of(item, depth + 1)
        return shown

    def _sequence(self, value: list[object] | tuple[object, ...], depth: int) -> list[object]:
        shown: list[object] = []
        for item in value:
            if self._left <= 0:
                shown.append(CUT)
                break
            shown.append(self.of(item, depth + 1))
        return shown


def redact_text(text: str, longest: int = LONGEST) -> str:
    """The text, cut if it is long, without user and password of the URLs in it, and such parameters."""
    text = _cut(text, longest)
    if "://" not in text:
        return text
    return "".join(_redact_url(part) if "://" in part else part for part in re.split(r"(\s+)", text))


def _redact_url(text: str) -> str:
    scheme, _, rest = text.partition("://")
    _, at, place = rest.rpartition("@")
    hidden = f"{scheme}://{HIDDEN}@{place}" if at else text
    return _PARAMETER.sub(_redact_parameter, hidden)


def _redact_parameter(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}" if _SECRET_PARAMETER.search(found[1]) else found[0]


def revealed(stored: bytes | None, *, keep_marks: bool = False) -> object:
    """What is stored, as JSON, secrets and all; a text that says why if it cannot be read."""
    if stored is None:
        return None
    why = unreadable(stored)
    if why is not None:
        return why
    try:
        value = msgspec.json.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "cannot be read: it is not JSON"
    return value if keep_marks else _without_marks(value, 0)


def _without_marks(value: Any, depth: int) -> object:
    if depth > DEEPEST + 1:
        return CUT
    if is_marked(value):
        return _without_marks(unmarked(value), depth + 1)
    if isinstance(value, dict):
        items = cast("dict[str, object]", value)
        return {key: _without_marks(item, depth + 1) for key, item in items.items()}
    if isinstance(value, list):
        return [_without_marks(item, depth + 1) for item in cast("list[object]", value)]
    return value


def _words(name: str) -> str:
    return "_".join(word.lower() for word in _WORDS.findall(name))


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit + _NOTE:  # else what was cut would be cut again
        return text
    return f"{text[:limit]}{CUT} ({len(text) - limit} more characters)"

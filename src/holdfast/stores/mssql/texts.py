"""Names and texts on their way to the server and back.

Servers differ in how they read what JSON has to escape, and take no notice of spaces at the end of a text. So
a name that has such characters is stored in other words, and texts go beside the JSON as they are.
"""

import re
from typing import Final

_MARK: Final = "\u241b"
_ODD = re.compile(rf'["\\\x00-\x1f{_MARK}]| \Z')
_WORDS = re.compile(rf"{_MARK}([0-9a-f]{{4}})")
_ENDS = "\x1e\x1d\x1c\x1f\ue000\ue001\ue002\ue003\ue004"


def stored(name: str) -> str:
    """The name as it is stored: itself, unless it has characters that no ordinary name has."""
    return _ODD.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", name)


def told(name: str) -> str:
    """The name that was stored so."""
    if _MARK not in name:
        return name
    return _WORDS.sub(lambda found: chr(int(found[1], 16)), name)


def stored_or_none(name: str | None) -> str | None:
    return None if name is None else stored(name)


def told_or_none(name: str | None) -> str | None:
    return None if name is None else told(name)


def clean(text: str | None) -> str | None:
    """The text as it can be stored: NUL and lone surrogates, which only errors have, are replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class Texts:
    """Texts of any length beside a JSON that names each by its number."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def put(self, text: str | None) -> int | None:
        """The number of the text; None if there is none."""
        if text is None:
            return None
        self._parts.append(clean(text) or "")
        return len(self._parts) - 1

    def whole(self) -> str | None:
        """All of them, each with the same character behind it, which comes first and is in none of them."""
        if not self._parts:
            return None
        end = next((end for end in _ENDS if not any(end in part for part in self._parts)), _ENDS[0])
        return end + "".join(part.replace(end, "\ufffd") + end for part in self._parts)

"""Keeps passwords out of what people and programs are shown.

Whoever can make a job fail chooses what is looked at here, so that each step is linear in its length.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_SECRET_PARAMETER = re.compile(r"(?i)([?&;](?>\w*?(?:pass|pwd|secret|token|key|odbc_connect))\w*+=)[^&;#\s]*")
_WHOLE_USER_INFO = re.compile(r"^([^:]*://[^:/@]*:).*@", re.DOTALL)
_WORD = re.compile(r"\S+")
_USER = re.compile(r"://[^:/@]*+:")
_PARTITION = re.compile(r"\bpartition://")
_ENCODED_WORD = re.compile(r"[^\s&]+")
_ENCODED_SCHEME = re.compile(r"(?i)%3A%2F%2F")
_ENCODED_COLON = re.compile(r"(?i)%3A")


def mask_url(url: str) -> str:
    """The URL without its password and other secrets, fit to be shown."""
    if url.startswith("partition:"):
        return _WORD.sub(_mask_partitions, url)
    return _mask_whole(url)


def mask(text: str) -> str:
    """The text with the secrets of every URL in it replaced; rather too much than too little."""
    if "partition://" in text:
        text = _WORD.sub(_mask_partitions, text)
    if "%40" in text and _ENCODED_SCHEME.search(text):
        text = _ENCODED_WORD.sub(_mask_encoded, text)
    if "@" in text and "://" in text:
        text = _WORD.sub(_mask_user_info, text)
    return _mask_parameters(text)


def _mask_parameters(text: str) -> str:
    return _SECRET_PARAMETER.sub(r"\1***", text) if "=" in text else text


def _mask_partitions(found: re.Match[str]) -> str:
    """The URLs of partitions are written with %XX in the whole, which would hide a secret from a pattern."""
    word = found[0]
    start = _PARTITION.search(word)
    mark = -1 if start is None else word.find("?", start.end())
    if mark < 0:
        return word
    parts = (part.partition("=") for part in word[mark + 1 :].split("&") if part)
    shown = (f"{name}={_mask_whole(unquote(value))}" for name, _, value in parts)
    return word[: mark + 1] + "&".join(shown)


def _mask_whole(url: str) -> str:
    return _mask_parameters(_WHOLE_USER_INFO.sub(r"\1***@", url))


def _mask_encoded(found: re.Match[str]) -> str:
    word = found[0]
    at = word.rfind("%40")
    scheme = None if at < 0 else _ENCODED_SCHEME.search(word, 0, at)
    colon = None if scheme is None else _ENCODED_COLON.search(word, scheme.end(), at)
    return word if colon is None else f"{word[: colon.end()]}***{word[at:]}"


def _mask_user_info(found: re.Match[str]) -> str:
    word = found[0]
    at = word.rfind("@")
    user = None if at < 0 else _USER.search(word, 0, at)
    return word if user is None else f"{word[: user.end()]}***{word[at:]}"

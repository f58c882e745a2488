"""Keeps passwords out of what people and programs are shown."""

from __future__ import annotations

import re
from urllib.parse import unquote

_SECRET_PARAMETER = re.compile(r"(?i)([?&;]\w*(?:pass|pwd|secret|token|key|odbc_connect)\w*=)[^&;#\s]*")
_WHOLE_USER_INFO = re.compile(r"^([^:]*://[^:/@]*:).*@", re.DOTALL)
_USER_INFO = re.compile(r"(\b[A-Za-z][\w+.-]*://[^\s:/@]*:)\S*@")


_ENCODED = re.compile(r"(?i)(%3A%2F%2F[^\s&]*?%3A)[^\s&]*%40")
_PARTITIONS = re.compile(r"\bpartition://[^\s?]*\?\S*")


def _shown(found: re.Match[str]) -> str:
    """The URLs of partitions are written with %XX in the whole, which would hide a secret from a pattern."""
    start, _, query = found[0].partition("?")
    parts = (part.partition("=") for part in query.split("&") if part)
    return start + "?" + "&".join(f"{name}={mask_url(unquote(value))}" for name, _, value in parts)


def mask_url(url: str) -> str:
    """The URL without its password and other secrets, fit to be shown."""
    if url.startswith("partition:"):
        return _PARTITIONS.sub(_shown, url)
    return _SECRET_PARAMETER.sub(r"\1***", _WHOLE_USER_INFO.sub(r"\1***@", url))


def mask(text: str) -> str:
    """The text with the secrets of every URL in it replaced; rather too much than too little."""
    if "://" not in text and "%3A%2F%2F" not in text.upper():
        return text
    text = _ENCODED.sub(r"\1***%40", _PARTITIONS.sub(_shown, text))
    return _SECRET_PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1***@", text))

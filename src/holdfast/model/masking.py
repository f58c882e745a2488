"""Keeps passwords out of what people and programs are shown."""

from __future__ import annotations

import re

_SECRET_PARAMETER = re.compile(r"(?i)([?&;]\w*(?:pass|pwd|secret|token|key|odbc_connect)\w*=)[^&;#\s]*")
_WHOLE_USER_INFO = re.compile(r"^([^:]*://[^:/@]*:).*@", re.DOTALL)
_USER_INFO = re.compile(r"(\b[A-Za-z][\w+.-]*://[^\s:/@]*:)\S*@")


def mask_url(url: str) -> str:
    """The URL without its password and other secrets, fit to be shown."""
    return _SECRET_PARAMETER.sub(r"\1***", _WHOLE_USER_INFO.sub(r"\1***@", url))


def mask(text: str) -> str:
    """The text with the secrets of every URL in it replaced; rather too much than too little."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1***@", text))

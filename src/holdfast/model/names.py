"""The one grammar for names that users choose: queues, tasks, keys, tags, namespaces."""

from __future__ import annotations

import re
from uuid import UUID

from holdfast.model.errors import InvalidJob

LONGEST = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/+=-]{0,199}", re.ASCII)


def check_name(value: object, field: str) -> str:
    """The name itself, or InvalidJob naming the field."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    shown = ascii(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise InvalidJob(
        field,
        f"{shown} is not a valid name; use 1 to {LONGEST} ASCII letters, digits and _ . @ / + = - "
        "(not starting with a sign)",
    )


def check_id(value: object, field: str = "id") -> str:
    """The canonical form of a job id, which is a UUID; InvalidJob otherwise."""
    try:
        return str(value if isinstance(value, UUID) else UUID(str(value)))
    except ValueError:
        raise InvalidJob(field, f"{ascii(value)[:60]} is not a UUID") from None


def known_id(value: object) -> str | None:
    """The canonical form of a job id, or None for what no stored job can be called."""
    try:
        return check_id(value)
    except InvalidJob:
        return None

"""One line for each change: who did what to what, from where, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.telemetry.logs import AUDIT, log, printable

logger = logging.getLogger(AUDIT)

_MOST_NAMED = 100
_LONGEST = 200


def record(
    event: str,
    *,
    user: str,
    role: str,
    action: str,
    touched: Sequence[str],
    status: int,
    remote: str,
    request: str,
) -> None:
    """Writes the line. What came from outside cannot end it, or begin another."""
    log(
        logger,
        logging.INFO,
        event,
        user=_text(user),
        role=role,
        action=action,
        on=" ".join(_text(each) for each in touched[:_MOST_NAMED]),
        count=len(touched),
        status=status,
        remote=_text(remote),
        request=request,
    )


def _text(value: str) -> str:
    return printable(value[:_LONGEST])

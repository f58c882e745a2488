"""A call that is made once more because its answer was lost."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from holdfast.model.errors import OutcomeUnknown, StoreError

T = TypeVar("T")


async def once_more(resent: Awaitable[T], unknown: OutcomeUnknown) -> T:
    """The answer to the second call. Without one it is as unknown as before: the first may have been done."""
    try:
        return await resent
    except OutcomeUnknown:
        raise
    except StoreError as error:
        raise OutcomeUnknown(f"{unknown}; sending it again failed: {error}") from error

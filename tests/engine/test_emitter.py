"""Events that are emitted while the store loses answers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.engine.emitter import Emitter
from holdfast.model.errors import OutcomeUnknown, StoreUnavailable


class Failing:
    """An event store that answers as it is told to."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)

    async def append(self, events: Sequence[Any], jobs: Sequence[Any] = ()) -> list[Any]:
        error = self._errors.pop(0)
        if error is not None:
            raise error
        return []


def appended(*errors: Exception | None) -> list[Any]:
    store: Any = Failing(*errors)
    return asyncio.run(Emitter(store, timeout=5).append([]))


def test_a_lost_answer_is_asked_for_once_more() -> None:
    assert appended(OutcomeUnknown("lost"), None) == []


def test_a_lost_answer_stays_unknown_when_it_cannot_be_asked_for_again() -> None:
    with pytest.raises(OutcomeUnknown, match="lost; sending it again failed: away"):
        appended(OutcomeUnknown("lost"), StoreUnavailable("away"))


def test_what_was_not_done_is_told_as_such() -> None:
    with pytest.raises(StoreUnavailable):
        appended(StoreUnavailable("away"))

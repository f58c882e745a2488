"""Sequences that a failed job has halted."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.model.names import check_name
from holdfast.store import Session


class Sequences:
    """The sequences of a namespace. One whose job failed for good with `on_failure="halt"` is halted.

    It goes on when that job is replayed and succeeds, or is discarded; or by `proceed`.
    """

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    async def halted(self) -> dict[str, str]:
        """The sequences that are halted, each with the id of the job that halted it."""
        return await self._session().flow.halted()

    async def proceed(self, sequence_key: str) -> None:
        """Lets a halted sequence go on with its next job, and leaves the failed one where it is."""
        await self._session().flow.proceed(check_name(sequence_key, "sequence_key"))

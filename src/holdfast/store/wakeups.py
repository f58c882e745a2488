"""Hints that work may exist, and jobs handed over without being asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from holdfast.model.records import Handed


class Wakeups(Protocol):
    """Hints that work may exist. They may be late, lost, or without reason; nothing rests on them."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Calls `wake`, from any thread, soon after something was added, became due or was asked to stop.

        Jobs that were claimed in the step that added them need no hint. Gives back a function that ends the
        listening.
        """
        ...


@runtime_checkable
class Handovers(Wakeups, Protocol):
    """Wake-ups of a session whose store claims for wants that stand."""

    def receive(self, take: Callable[[Handed], None]) -> Callable[[], None]:
        """Calls `take`, in the session's event loop, with what was claimed for a want that stood.

        As long as nobody receives, no want of the session stands. Gives back a function that ends it.
        """
        ...

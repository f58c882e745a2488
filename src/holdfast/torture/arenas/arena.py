"""Where a campaign is held: the store, how its processes reach it, and what can be done to it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Protocol

from holdfast.torture.network import Gates


class Arena(Protocol):
    """A store to be tortured. `direct` is its URL as the campaign itself uses it, past all faults.

    `gates` are the ways of the processes to it, if there is a wire. `left_out` names the faults that cannot
    be done here, and why.
    """

    kind: str
    direct: str
    gates: Gates | None
    left_out: Mapping[str, str]

    async def open(self, names: list[str]) -> None:
        """Makes it ready for processes of these names."""
        ...

    async def close(self) -> None: ...

    def environ(self, name: str) -> Mapping[str, str]:
        """How the process of that name is told of the store."""
        ...

    async def prepare(self) -> None:
        """Makes the tables that handlers write to beside their jobs."""
        ...

    async def ledger(self) -> list[tuple[str, int]]:
        """What handlers have written: job and token."""
        ...

    async def cut_backends(self, draw: random.Random) -> int:
        """Ends some of the store's connections from its side; how many."""
        ...

    async def crash(self) -> None:
        """Ends the server at once."""
        ...

    async def recover(self) -> None:
        """Starts it again, and waits until it answers."""
        ...

    def is_free(self) -> bool:
        """Whether the store can be written to now, so that whoever was frozen does not hold it up."""
        ...

    def shrink(self) -> None:
        """Leaves no space on the disk."""
        ...

    def grow(self) -> None:
        """Gives it back."""
        ...

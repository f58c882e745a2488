"""The connection of one session, and the scripts that are run on it."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.redis.address import Address
from holdfast.stores.redis.faults import is_elsewhere, is_overwritten, translated
from holdfast.stores.redis.finder import Finder
from holdfast.stores.redis.overwritten import complaint, overwritten
from holdfast.stores.redis.scripts import script
from holdfast.stores.redis.wire import FAULTS, ReplyError, Wire

Clock = Callable[[], int]

_HOPS: Final = 5
"""How often a Cluster may send a call on before it is given up."""


class Database:
    """One namespace of a server. The server's clock counts, unless a test gives one of its own."""

    def __init__(self, address: Address, namespace: str, clock: Clock | None = None) -> None:
        self.address = address
        self.finder = Finder(address)
        self.prefix = address.key(namespace)
        # The second never exists: while a Cluster moves the slot, a call is refused before its script runs,
        # which would else be cut off in the middle by the first key that is elsewhere.
        self._keys = (self.prefix + b"m", self.prefix + b"-")
        self._clock = clock
        self._wire: Wire | None = None
        self._opening: asyncio.Task[Wire | Exception] | None = None
        self._is_closed = False
        self._is_overwritten = False
        """Whether a script was cut off by a key of another type, and what is wrong may be so still."""

    async def run(self, name: str, *args: object, writes: bool = True) -> Any:
        """What a script answers. All its arguments are values. The wire says for how long it waits."""
        told = script(name)
        now = b"" if self._clock is None else self._clock()
        command = ("EVALSHA", told.sha, len(self._keys), *self._keys, now, *args)
        wire = await self._connected()
        is_sent = False
        if self._is_overwritten:
            await self._check_keys(wire)
        try:
            for _ in range(_HOPS):
                try:
                    answer = wire.ask(*command)
                    is_sent = writes
                    return await answer
                except ReplyError as error:
                    is_sent = False
                    if error.code == "NOSCRIPT":
                        command = ("EVAL", told.text, *command[2:])
                    elif error.code == "MOVED":
                        wire = await self._moved(wire, error)
                    else:
                        raise
            raise StoreUnavailable(f"{self.address.place}: the Cluster sends on in circles")
        except FAULTS as error:
            if is_elsewhere(error):
                wire.retire()
            if is_overwritten(error):
                self._is_overwritten = True
                await self._check_keys(wire)
                raise complaint(self.address.place, self.prefix, {}) from error
            raise translated(error, self.address.place, sent=is_sent) from error

    async def ask(self, *command: object) -> Any:
        """What the server answers to a command that has no key."""
        wire = await self._connected()
        try:
            async with asyncio.timeout(self.address.patience):
                return await wire.ask(*command)
        except FAULTS as error:
            raise translated(error, self.address.place, sent=False) from error

    async def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._wire is not None:
            await self._wire.end()

    async def _check_keys(self, wire: Wire) -> None:
        """Refuses to begin what a key that somebody has overwritten would cut off in its middle again."""
        try:
            async with asyncio.timeout(self.address.patience):
                found = await overwritten(wire, self.prefix)
        except FAULTS as error:
            raise translated(error, self.address.place, sent=False) from error
        if found:
            raise complaint(self.address.place, self.prefix, found)
        self._is_overwritten = False

    async def _connected(self) -> Wire:
        wire = self._wire
        if wire is not None and wire.is_open:
            return wire
        # All who wait share one try: one after the other they would wait for as many timeouts.
        opening = self._opening
        if (opening is None or opening.done()) and not self._is_closed:
            opening = self._opening = asyncio.create_task(self._open())
        if opening is not None:
            await asyncio.wait([opening])
        if self._is_closed or opening is None:
            raise StoreUnavailable(f"{self.address.place}: the session is closed; nothing was written")
        opened = opening.result()
        if isinstance(opened, Exception):
            raise translated(opened, self.address.place, sent=False) from opened
        return opened

    async def _open(self) -> Wire | Exception:
        """The connection, or why there is none: perhaps nobody waits for it any more."""
        try:
            self._wire = await self.finder.open()
        except FAULTS as error:
            return error
        return self._wire

    async def _moved(self, wire: Wire, error: ReplyError) -> Wire:
        self.finder.follow(error)
        wire.retire()
        return await self._connected()

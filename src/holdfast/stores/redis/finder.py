"""Where the server is that can be written to: told by the URL, by a Sentinel, or by a Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.stores.redis.address import Address
from holdfast.stores.redis.wire import FAULTS, Heard, ReplyError, Wire, WireLost, connect

T = TypeVar("T")


class Finder:
    """Finds the server anew for each connection, so that the next one is made to whoever took over.

    One that listens is cut off when a Cluster has moved the namespace: a node counts only its own listeners.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._turn = 0
        self._moved: tuple[str, int] | None = None
        self._listening: Wire | None = None

    async def open(self, heard: Heard | None = None) -> Wire:
        """A connection to the server that has the namespace."""
        wire = await self._open(heard)
        if heard is not None:
            self._listening = wire
        return wire

    def follow(self, error: ReplyError) -> None:
        """Goes where a Cluster has sent us on."""
        host, _, port = str(error).split(" ")[2].rpartition(":")
        self._moved = (host.strip("[]") or self._address.hosts[0][0], int(port))
        if self._listening is not None:
            self._listening.close("the namespace has moved")

    async def _open(self, heard: Heard | None) -> Wire:
        if self._address.kind == "sentinel":
            return await self._from_sentinels(heard)
        if self._address.kind == "cluster":
            return await self._from_cluster(heard)
        server = self._address.hosts[0] if self._address.hosts else ("", 0)
        return await connect(self._address, server, heard)

    async def _from_cluster(self, heard: Heard | None) -> Wire:
        if self._moved is not None:
            try:
                return await connect(self._address, self._moved, heard)
            except FAULTS:
                self._moved = None
        return await self._first(lambda server: connect(self._address, server, heard))

    async def _from_sentinels(self, heard: Heard | None) -> Wire:
        server = await self._first(self._told_by)
        wire = await connect(self._address, server, heard)
        try:
            async with asyncio.timeout(self._address.patience):
                role = (await wire.ask("ROLE"))[0]
            if role != b"master":
                raise WireLost(f"{server[0]}:{server[1]} is not the master yet or any more")
        except BaseException:
            wire.close()
            raise
        return wire

    async def _told_by(self, sentinel: tuple[str, int]) -> tuple[str, int]:
        wire = await connect(self._address, sentinel, is_sentinel=True)
        try:
            async with asyncio.timeout(self._address.patience):
                found = await wire.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
        finally:
            await wire.end()
        if found is None:
            raise WireLost(f"the Sentinel knows no service {self._address.service!r}")
        return found[0].decode(), int(found[1])

    async def _first(self, attempt: Callable[[tuple[str, int]], Awaitable[T]]) -> T:
        """What the first of the hosts gives that answers; next time begins with another than the silent."""
        hosts = self._address.hosts
        first: Exception | None = None
        for _ in hosts:
            try:
                return await attempt(hosts[self._turn % len(hosts)])
            except FAULTS as error:
                first = first or error
                self._turn += 1
        assert first is not None
        raise first

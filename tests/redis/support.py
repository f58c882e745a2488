"""What tests of the Redis store share."""

from typing import Any

from holdfast.stores.redis.address import parse
from holdfast.stores.redis.finder import Finder


async def told(url: str, *command: object) -> Any:
    """What a server answers to one command."""
    wire = await Finder(parse(url)).open()
    try:
        return await wire.ask(*command)
    finally:
        wire.close()


async def emptied(url: str) -> None:
    """Removes everything from a database of tests."""
    await told(url, "FLUSHDB")

"""Keys that hold something of another type than Holdfast writes there, and what is said of them."""

import asyncio
from typing import Final

from holdfast.model.errors import StoreError
from holdfast.stores.redis.wire import Wire

_HASHES = ("a", "b", "c", "e:n", "e:v", "j", "k", "m", "p", "q", "qs", "r", "u", "ur", "y")
_FLOW_HASHES = ("z", "z:b", "z:h", "z:k", "z:w", "zs")
_SORTED = ("d", "e:f", "e:t", "i", "j:l", "j:n", "j:w", "l", "oe", "on", "z:e", "z:p", "z:q", "z:r", "z:t")
TYPES: Final = {
    **dict.fromkeys((*_HASHES, *_FLOW_HASHES), "hash"),
    **dict.fromkeys(_SORTED, "zset"),
    **dict.fromkeys(("e:i", "z:a", "z:o"), "set"),
    **dict.fromkeys(("v", "z:c", "z:n"), "string"),
    "e": "stream",
    "f": "list",
}
"""What is at the keys that a namespace has once."""


async def overwritten(wire: Wire, prefix: bytes) -> dict[str, str]:
    """Those of them that hold something else, each with the type that it has."""
    names = list(TYPES)
    told = await asyncio.gather(*(wire.ask("TYPE", prefix + name.encode()) for name in names))
    types = [answer.decode() if isinstance(answer, bytes) else str(answer) for answer in told]
    return {
        name: found for name, found in zip(names, types, strict=True) if found not in (TYPES[name], "none")
    }


def complaint(place: str, prefix: bytes, found: dict[str, str]) -> StoreError:
    """Which keys somebody has overwritten, as far as is known, and what to do about it."""
    begin = prefix.decode(errors="replace")
    if not found:
        return StoreError(
            f"{place}: a key of one queue, limit, sequence or topic, named {begin}..., holds a value of "
            "another type than Holdfast keeps there: somebody has overwritten it. Find it with SCAN and "
            "TYPE, and restore it from a backup"
        )
    keys = ", ".join(
        f"{begin}{name} is a {type_} and should be a {TYPES[name]}" for name, type_ in found.items()
    )
    return StoreError(
        f"{place}: {keys}: somebody has overwritten it, and nothing is done here until that is mended. "
        "Restore it from a backup"
    )

"""The scripts, each made of the parts that it needs."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files

_PARTS: dict[str, tuple[str, ...]] = {
    "add": ("jobs", "adding", "ring"),
    "tick": ("jobs", "adding", "moving", "succeeding", "promoting", "claiming", "ring"),
    "extend": ("jobs",),
    "expired": (),
    "edit": ("jobs", "ring"),
    "delete": ("jobs",),
    "read": (),
    "find": (),
    "count": ("jobs", "promoting"),
    "history": (),
    "prune": ("jobs",),
    "register": (),
    "beat": (),
    "retire": (),
    "workers": (),
    "pause": ("ring",),
    "queues": (),
    "layout": (),
    "lock_acquire": ("locks",),
    "lock_renew": ("locks",),
    "lock_release": ("locks",),
}


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent, and the name by which the server knows it afterwards."""

    name: str
    text: bytes
    sha: bytes


@lru_cache(maxsize=64)
def script(name: str) -> Script:
    source = files("holdfast.stores.redis") / "scripts"
    parts = ("base", *_PARTS[name], name)
    text = "\n".join((source / f"{part}.lua").read_text(encoding="utf-8") for part in parts).encode()
    return Script(name, text, sha1(text, usedforsecurity=False).hexdigest().encode())

"""The scripts, each made of the parts that it needs."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files

_ADDING = ("waiting", "jobs", "adding", "clock", "standing", "handing", "ring")
_EVENTS = ("events", "appending")
_CLAIMING = ("repeating", "standing", "succeeding", "promoting", "clock", "claiming", "ring")
_CLAIM = (*_CLAIMING, "tick")
_PASSING = (*_CLAIMING, "gates", "passing")
_FLOW = ("flow", "keeping", "ending", "settling")
_WAITING = ("waiting", "jobs", *_FLOW)
_PARTS: dict[str, tuple[str, ...]] = {
    "add": (*_ADDING, "add"),
    "append": (*_ADDING, *_EVENTS, "add"),
    "tick": ("waiting", "jobs", "adding", "late", "moving", *_CLAIM),
    "tick_events": ("waiting", "jobs", *_EVENTS, "adding", "late", "moving", *_CLAIM),
    "tick_plain": ("waiting", "late", *_CLAIM),
    "tick_pass": ("waiting", "flow", "ending", "late", *_PASSING, "tick"),
    "tick_flow": (*_WAITING, *_EVENTS, "entering", "adding", "late", "moving", *_PASSING, "tick"),
    "add_flow": (*_WAITING, *_EVENTS, "promoting", "entering", "adding", "ring", "add"),
    "extend": ("waiting", "jobs", "extend"),
    "expired": ("expired",),
    "edit": (*_WAITING, "ring", "edit"),
    "delete": (*_WAITING, "ring", "delete"),
    "read": ("read",),
    "find": ("find",),
    "count": ("waiting", "promoting", "count"),
    "history": ("history",),
    "live": ("waiting", "live"),
    "prune": (*_WAITING, "ring", "prune"),
    "register": ("fleet", "register"),
    "beat": ("beat",),
    "retire": ("retire",),
    "workers": ("fleet", "workers"),
    "pause": ("ring", "pause"),
    "queues": ("waiting", "queues"),
    "layout": ("layout",),
    "lock_acquire": ("locks", "lock_acquire"),
    "lock_holder": ("locks", "lock_holder"),
    "lock_held": ("locks", "lock_held"),
    "lock_renew": ("locks", "lock_renew"),
    "lock_release": ("locks", "lock_release"),
    "schedule_write": (*_ADDING, "locks", "schedules", "schedule_write"),
    "schedule_write_events": (*_ADDING, *_EVENTS, "locks", "schedules", "schedule_write"),
    "schedule_write_flow": (
        *_WAITING,
        *_EVENTS,
        "promoting",
        "entering",
        "adding",
        "ring",
        "locks",
        "schedules",
        "schedule_write",
    ),
    "schedule_remove": ("schedules", "schedule_remove"),
    "schedule_get": ("schedules", "schedule_get"),
    "schedule_list": ("schedules", "schedule_list"),
    "schedule_due": ("schedules", "schedule_due"),
    "event_read": ("events", "event_read"),
    "event_last": ("events", "event_last"),
    "event_prune": ("events", "event_prune"),
    "flow_put": ("waiting", "flow", "holding", "ring", "flow_put"),
    "flow_remove": ("waiting", "flow", "holding", "ring", "flow_remove"),
    "flow_limits": ("waiting", "flow", "flow_limits"),
    "flow_usage": ("waiting", "flow", "holding", "flow_usage"),
    "flow_awaited": ("waiting", "flow", "keeping", "flow_awaited"),
    "flow_before": ("waiting", "flow", "flow_before"),
    "flow_release": (*_WAITING, "ring", "flow_release"),
    "flow_proceed": (*_WAITING, "ring", "flow_proceed"),
    "flow_halted": ("waiting", "flow", "flow_halted"),
    "flow_overdue": ("waiting", "flow", "flow_overdue"),
}
"""What each is made of, in this order. To define functions takes time, so none has what it never needs."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent, and the name by which the server knows it afterwards."""

    name: str
    text: bytes
    sha: bytes


@lru_cache(maxsize=64)
def script(name: str) -> Script:
    source = files("holdfast.stores.redis") / "scripts"
    parts = ("base", *_PARTS[name]) if name in _PARTS else (name,)
    texts = [(source / f"{part}.lua").read_text(encoding="utf-8") for part in parts]
    if "flow" in parts:
        texts[:-1] = map(_wrapped, texts[:-1])
    text = "\n".join(texts).encode()
    return Script(name, text, sha1(text, usedforsecurity=False).hexdigest().encode())


def _wrapped(part: str) -> str:
    """The part with its functions defined inside one more, after all of its locals.

    Lua looks for each local that a function refers to in a list of all that are referred to, but what the
    function around it has found already is only copied. Where functions are many, that takes a third less.
    """
    before: list[str] = []
    inside: list[str] = []
    is_inside = False
    for line in part.splitlines():
        is_inside = is_inside or line.startswith(("function F.", "F."))
        (inside if is_inside else before).append(line)
        if (
            line == "end"
            or line.startswith("F.")
            or (line.startswith("function F.") and line.endswith(" end"))
        ):
            is_inside = False
    return "\n".join([*before, ";(function()", *inside, "end)()"] if inside else before)

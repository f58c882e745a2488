"""What Redis's errors mean to a caller."""

import re

from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.stores.redis.wire import ReplyError

_NOT_DONE = frozenset(
    {
        "ASK",  # a Cluster moves the slot
        "BUSY",  # a script runs for long
        "CLUSTERDOWN",
        "LOADING",  # starting up
        "MASTERDOWN",
        "MISCONF",  # it cannot save, and takes no writes until it can
        "MOVED",
        "NOREPLICAS",
        "READONLY",  # a replica, after a failover
        "TRYAGAIN",  # a Cluster moves the slot
        "UNBLOCKED",
    }
)
_REFUSED = frozenset({"NOAUTH", "NOPERM", "WRONGPASS"})
_MOVED_AWAY = frozenset({"READONLY", "MASTERDOWN", "CLUSTERDOWN"})
_INNER = re.compile(
    r"-?\b(OOM|READONLY|MISCONF|NOREPLICAS|MASTERDOWN|LOADING|CLUSTERDOWN|NOPERM|WRONGTYPE)\b "
)


def code_of(error: BaseException) -> str:
    """The word that says what was wrong; within a script an older server tells it in the middle."""
    if not isinstance(error, ReplyError):
        return ""
    found = _INNER.search(str(error)) if error.code == "ERR" else None
    return found[1] if found else error.code


def is_elsewhere(error: BaseException) -> bool:
    """Whether the server is not, or no longer, the one that can be written to."""
    return code_of(error) in _MOVED_AWAY


def is_overwritten(error: BaseException) -> bool:
    """Whether a key holds something of another type than was ever written there."""
    return code_of(error) == "WRONGTYPE"


def translated(error: Exception, place: str, *, sent: bool) -> HoldfastError:
    """The error of ours that says what happened, to be raised from this one.

    `sent` says that a change was under way, so that a lost connection leaves its outcome unknown.
    """
    if isinstance(error, HoldfastError):
        return error
    text = str(error).split("\n", 1)[0] or type(error).__name__
    if isinstance(error, ReplyError):
        return _told(code_of(error), text, place)
    if sent:
        return OutcomeUnknown(f"{place}: no answer ({text}); it may or may not have been done")
    return StoreUnavailable(f"{place}: {text}; nothing was written")


def _told(code: str, text: str, place: str) -> HoldfastError:
    if code == "OOM":
        return StoreFull(
            f"{place}: the memory limit of the server is reached (maxmemory); nothing was written. Raise the "
            "limit, or remove jobs"
        )
    if code in _NOT_DONE or "max number of clients" in text:
        return StoreUnavailable(f"{place}: {text}; nothing was written")
    if code in _REFUSED or "AUTH" in text or "invalid DB index" in text or "DB index is out of range" in text:
        return ConfigurationError(f"{place}: {text}", setting="store")
    return StoreError(f"{place}: {text}")

"""What PostgreSQL's errors mean to a caller."""

from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.stores.postgres.driver import LOST

_REFUSED = ("28", "3D")
_MISSING = frozenset({"3F000", "42P01", "42883", "42703", "42704"})
_NOT_DONE = frozenset(
    {
        "0A000",  # a cached plan no longer fits, because the schema was changed
        "25006",  # a standby, after a failover
        "26000",  # a prepared statement that this connection does not know
        "40001",  # serialization failure
        "40P01",  # deadlock
        "53000",
        "53200",
        "53300",  # too many connections
        "53400",
        "55000",
        "55006",
        "55P03",  # lock timeout
        "57014",  # statement timeout
        "57P03",  # starting up or in recovery
    }
)
_FULL = frozenset({"53100"})
_POOLER = frozenset({"26000", "42P05"})
_CUT_OFF = frozenset({"40003", "57P01", "57P02", "57P04", "57P05", "25P03", "25P04"})
_BROKEN = frozenset({"0A000", "25006", "26000"})


def sqlstate(error: BaseException) -> str:
    """The five letters by which every driver tells what was wrong; empty if it is not the server's word."""
    found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return found if isinstance(found, str) else ""


def is_broken(error: BaseException) -> bool:
    """Whether the connection is of no more use though it is open."""
    return any(sqlstate(each) in _BROKEN for each in (error, error.__cause__) if each is not None)


def is_taken(error: StoreError) -> bool:
    """Whether an id or key that was to be stored is there already."""
    return error.__cause__ is not None and sqlstate(error.__cause__) == "23505"


def translated(error: Exception, place: str, *, sent: bool) -> HoldfastError:
    """The error of ours that says what happened, to be raised from this one.

    One that is ours already, or nobody's fault but the caller's, is raised again as it is. `sent` says that a
    change was under way, so that a lost connection leaves its outcome unknown.
    """
    answer = None if isinstance(error, HoldfastError) else _answer(error, place, sent=sent)
    if answer is None:
        raise error
    return answer


def _answer(error: Exception, place: str, *, sent: bool) -> HoldfastError | None:
    code = sqlstate(error)
    text = str(error).split("\n", 1)[0]
    if code in _POOLER or (code == "08P01" and "startup parameter" in text):
        text = f"{text}; behind a pooler of transactions, add prepared=off to the URL"
        if code != "26000":
            return ConfigurationError(f"{place}: {text}", setting="store")
    if code in _FULL:
        return StoreFull(f"{place}: no space left; nothing was written")
    if code in _MISSING:
        return SchemaMismatch(f"{place}: {text}; run: holdfast migrate")
    if code in _NOT_DONE:
        return StoreUnavailable(f"{place}: {text}; nothing was written")
    if code.startswith(_REFUSED) or code == "42501":
        return ConfigurationError(f"{place}: {text}", setting="store")
    if isinstance(error, ValueError) and isinstance(error, LOST):
        # The driver's own refusal of a value or of the URL: nothing was sent.
        if "Configuration" in type(error).__name__:
            return ConfigurationError(f"{place}: {text}", setting="store")
        return StoreError(f"{place}: {text}; nothing was written")
    if code in _CUT_OFF or code.startswith("08") or _is_lost(error):
        if sent:
            return OutcomeUnknown(f"{place}: no answer ({_brief(error)}); it may or may not have been done")
        return StoreUnavailable(f"{place}: {_brief(error)}; nothing was written")
    if code:
        return StoreError(f"{place}: {text} ({code})")
    return None


def _is_lost(error: Exception) -> bool:
    # Other drivers have errors of their own for it, with no code.
    return isinstance(error, LOST) or type(error).__name__ in {"OperationalError", "InterfaceError"}


def _brief(error: Exception) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__

"""What SQL Server's errors mean to a caller."""

import re

from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from holdfast.stores.mssql.driver import Fault

DEADLOCK = 1205
LOCKED_OUT = 1222
_LOGIN_FAILED = 18456
_NO_DATABASE = 4060
_TAKEN = frozenset({2601, 2627})
_FULL = frozenset({1101, 1105, 1132, 9002, 40544})
_MISSING = frozenset({201, 207, 208, 2812, 2760, 8144, 8145})
_REFUSED = frozenset(
    {
        229,  # permission denied
        230,
        262,
        297,
        300,
        911,  # no such database
        916,  # no user in the database
        18452,
        _LOGIN_FAILED,
        18486,  # locked out
        18487,  # password expired
        18488,
        40532,
        40607,
        40615,  # the firewall of Azure
        47073,
    }
)
_NOT_DONE = frozenset(
    {
        615,
        617,
        669,
        701,  # no memory
        802,
        845,
        978,  # a secondary replica
        982,
        983,
        1203,
        1204,  # no room for locks
        DEADLOCK,
        LOCKED_OUT,
        1807,
        3906,  # read-only, after a failover
        3935,
        3960,  # snapshot conflict
        3966,
        _NO_DATABASE,
        4221,
        5030,
        8628,
        8645,  # waited too long for memory
        8651,
        9515,
        10922,
        10928,  # limits of a database of Azure
        10929,
        10936,
        14355,
        17197,
        20041,
        40501,  # throttled
        40549,  # the session was ended because of what it used
        40550,
        40551,
        40552,
        40553,
        40613,  # not available, or waking up
        42108,
        42109,
        49918,
        49919,
        49920,
    }
)
_CUT_OFF = frozenset(
    {
        -2,
        20,
        64,
        121,
        233,
        596,  # the session was killed
        6005,  # shutting down
        10053,
        10054,
        10060,
        40143,
        40197,  # the server failed, or was replaced by another
        40540,
    }
)
_STAYS = frozenset({701, 1203, 1204, DEADLOCK, LOCKED_OUT, 3960, 3966, 8628, 8645, 8651})
"""What leaves a connection as good as it was."""

_TEXTS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), number)
    for pattern, number in (
        (r"was deadlocked on|deadlock detected", DEADLOCK),
        (r"lock request time ?out period exceeded|due to lock timeout", LOCKED_OUT),
        (r"cannot obtain a lock resource", 1204),
        (r"cannot open database", _NO_DATABASE),
        (r"database .* does not exist", 911),
        (r"is not allowed to access the server", 40615),
        (r"cannot open server", 40532),
        (r"login failed for user", _LOGIN_FAILED),
        (r"login is from an untrusted domain", 18452),
        (r"is not able to access the database", 916),
        (r"permission was denied|permission denied|does not have permission", 229),
        (r"is not currently available", 40613),
        (r"service is currently busy", 40501),
        (r"service has encountered an error processing your request", 40197),
        (r"has reached its size quota", 40544),
        (r"could not allocate (?:space|a new page)", 1105),
        (r"the transaction log for database .* is full", 9002),
        (r"resource id ?: ?\d", 10928),
        (r"cannot process (?:request|create or update)", 49918),
        (r"session (?:has been|is) terminated because", 40549),
        (r"login to read-secondary failed", 4221),
        (r"because the database is read-only", 3906),
        (r"snapshot isolation transaction aborted", 3960),
        (r"timeout occurred while waiting for memory", 8645),
        (r"insufficient system memory", 701),
        (r"session is in the kill state", 596),
        (r"shutdown is in progress", 6005),
        (r"invalid object name|relation .* does not exist", 208),
        (r"could not find stored procedure|procedure .* does not exist", 2812),
        (r"invalid column name", 207),
        (r"has too many arguments specified", 8144),
        (r"is not a parameter for procedure", 8145),
        (r"expects parameter .* which was not supplied", 201),
        (r"violation of (?:primary|unique) key|duplicate key value violates", 2627),
        (r"cannot insert duplicate key row", 2601),
    )
)
_STATES = {
    "Serialization failure": DEADLOCK,
    "Invalid authorization specification": _LOGIN_FAILED,
    "Base table or view not found": 208,
    "Column not found": 207,
}
_NO_TLS = "turn TLS on at the server, or say encrypt=off if nobody can listen on the way"
_NOT_TRUSTED = (
    "use the host name that the certificate is for, and name who issued it with the environment variable "
    "SSL_CERT_FILE; or say trust_server_certificate=on if nobody can step in on the way"
)
_ENCRYPTION: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (r"encryption not supported|encryption but it is not supported", _NO_TLS),
        (r"encryption enabled but it is required", "say encrypt=on"),
        (r"certificate (?:verify failed|does not match|chain was issued by)", _NOT_TRUSTED),
        (r"target principal name is incorrect", _NOT_TRUSTED),
    )
)
"""What drivers say if the two sides cannot agree on encryption, and what to do about it."""


def number_of(fault: Fault) -> int | None:
    """The server's number: what the driver tells, else what its words mean.

    A database that cannot be opened is told as that and as a failed sign-in, in one breath.
    """
    number = fault.number
    if number is not None and not (number == _LOGIN_FAILED and "cannot open database" in fault.text.lower()):
        is_strange = number > 50_000  # not one of SQL Server's own
        return (_told(fault.text) or number) if is_strange else number
    if fault.is_lost:
        return None
    return _told(fault.text) or _STATES.get(fault.state)


def is_deadlock(fault: Fault) -> bool:
    return number_of(fault) == DEADLOCK


def is_locked_out(fault: Fault) -> bool:
    """Whether a lock was not to be had in time, so that nothing was done."""
    return number_of(fault) == LOCKED_OUT


def is_refused_sign_in(fault: Fault) -> bool:
    return number_of(fault) == _LOGIN_FAILED


def encryption_advice(fault: Fault) -> str:
    """What to do if no connection came about because of encryption; empty if it was something else."""
    if not fault.is_lost or fault.sent:
        return ""
    return next((advice for pattern, advice in _ENCRYPTION if pattern.search(fault.text)), "")


def is_broken(fault: Fault) -> bool:
    """Whether the connection is of no more use, though it may be open."""
    number = number_of(fault)
    return fault.is_lost or ((number in _NOT_DONE or number in _CUT_OFF) and number not in _STAYS)


def is_taken(error: StoreError) -> bool:
    """Whether an id or key that was to be stored is there already."""
    return isinstance(error.__cause__, Fault) and number_of(error.__cause__) in _TAKEN


def translated(error: Exception, place: str, *, sent: bool) -> HoldfastError:
    """The error of ours that says what happened, to be raised from this one.

    One that is not a Fault is raised again as it is. `sent` says that a change was under way, so that a lost
    connection leaves its outcome unknown.
    """
    if not isinstance(error, Fault):
        raise error
    number = number_of(error)
    text = error.text.split("\n", 1)[0]
    told = text if number is None else f"{text} ({number})"
    if number in _FULL:
        return StoreFull(f"{place}: no space left; nothing was written ({number})")
    if number in _MISSING:
        return SchemaMismatch(f"{place}: {told}; run: holdfast migrate")
    if number in _NOT_DONE:
        hint = "; is the name of the database right?" if number == _NO_DATABASE else ""
        return StoreUnavailable(f"{place}: {told}{hint}; nothing was written")
    if number in _REFUSED:
        return ConfigurationError(f"{place}: {told}", setting="store")
    if number in _CUT_OFF or error.is_lost:
        if sent and error.sent:
            return OutcomeUnknown(f"{place}: no answer ({told}); it may or may not have been done")
        return StoreUnavailable(f"{place}: {told}; nothing was written")
    return StoreError(f"{place}: {told}")


def _told(text: str) -> int | None:
    return next((number for pattern, number in _TEXTS if pattern.search(text)), None)

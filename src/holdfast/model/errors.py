"""Every error that Holdfast raises, in one tree.

HoldfastError
├── ConfigurationError          a setting is wrong; the message names it
├── InvalidJob                  a job was refused at enqueue; `field` names the part
│   └── PayloadTooLarge
├── InvalidEvent                an event was refused before it was stored; `field` names the part
├── Undeliverable               a relay cannot hand on an event, however often it tries
├── Undecodable                 a stored payload or result does not fit its type; `field` names the part
├── UnknownTask                 no task of that name is registered
├── InvalidTransition           a state change that the lifecycle does not allow
├── Conflict
│   ├── VersionConflict         somebody else changed the job or schedule first
│   ├── KeyConflict             the idempotency key belongs to other work
│   ├── IdConflict              the job id belongs to other work
│   └── StateConflict           the job is in a state in which this cannot be done
├── ScheduleGone                no schedule of that name is stored
├── GroupGone                   no group of that name has consumed events
├── LeaseLost                   the attempt no longer owns its job; final, never retried
├── InvalidLock                 a lock was refused before it was asked for; `field` names the part
├── LockTimeout                 the lock was not to be had in the time given
├── LockLost                    the lock may be another's by now; final, never retried
├── StaleToken                  a newer token was there before; nothing was written
├── StoreError
│   ├── StoreUnavailable        nothing was done; trying again may work
│   │   └── StoreFull           no space left
│   ├── OutcomeUnknown          it may or may not have been done; repeat with the same id or key
│   │   └── PartlyStored        some partitions have stored their jobs, others have not; `stored` names them
│   └── SchemaMismatch          the schema is missing, too old or too new for this version
├── DeliveryFailed              relayed events were not acknowledged; the same again may work
├── ResultError
│   ├── JobFailed
│   ├── JobCancelled
│   ├── ResultNotKept
│   └── JobGone
├── AzureRefused                Azure did not do what it was asked; `code` is its own word for why
├── NotSignedIn                 Azure cannot be asked, because nobody is signed in here
├── NotProvisioned              not all that was wanted in Azure is there; running the same again goes on
├── NotInTransaction            the given connection has no open transaction
├── NotOpen                     the application is used before it is entered, or on another event loop
└── BlockingCallOnLoop          a blocking call was made on a running event loop
"""

from __future__ import annotations


class HoldfastError(Exception):
    """The root: catch this to catch everything that Holdfast raises on purpose."""


class _OfField(HoldfastError, ValueError):
    """One part of what was given, or is stored, is wrong: `field` names it, `problem` says what it is."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ConfigurationError(HoldfastError):
    """A setting is wrong."""

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(message if setting is None else f"{setting}: {message}")
        self.setting = setting


class InvalidJob(_OfField):
    """A job was refused before it was stored."""


class PayloadTooLarge(InvalidJob):
    """The encoded arguments are larger than the limit."""


class InvalidEvent(_OfField):
    """An event was refused before it was stored."""


class Undeliverable(HoldfastError):
    """A relay cannot hand on an event, however often it tries."""

    def __init__(self, event_id: str, message: str) -> None:
        super().__init__(f"event {event_id}: {message}")
        self.event_id = event_id


class Undecodable(_OfField):
    """What is stored does not fit the types of the task."""


class UnknownTask(HoldfastError, LookupError):
    """No task of that name is registered in this application."""


class InvalidTransition(HoldfastError):
    """A state change that the lifecycle does not allow."""


class Conflict(HoldfastError):
    """The store refused because something else stands there."""


class VersionConflict(Conflict):
    """Somebody else changed the job or the schedule first: read it again and decide anew."""


class KeyConflict(Conflict):
    """The idempotency key belongs to a job with another task or other arguments."""


class IdConflict(Conflict):
    """The job id belongs to a job with another task or other arguments."""


class StateConflict(Conflict):
    """The job is in a state in which this cannot be done."""


class GroupGone(HoldfastError, LookupError):
    """No group of that name has consumed events."""


class ScheduleGone(HoldfastError, LookupError):
    """No schedule of that name is stored: it was never there, or was removed."""


class LeaseLost(HoldfastError):
    """The attempt no longer owns its job. Nothing that it reports will be recorded."""


class InvalidLock(_OfField):
    """A lock cannot be asked for so."""


class LockTimeout(HoldfastError, TimeoutError):
    """The lock was not to be had in the time that was given for waiting."""


class LockLost(HoldfastError):
    """The lock expired, or may have: another may hold it by now."""


class StaleToken(HoldfastError):
    """A newer holder has been here: the token is older than one that was seen, and nothing was written."""


class StoreError(HoldfastError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store did nothing, and the same call may work later."""


class StoreFull(StoreUnavailable):
    """The store has no space left; nothing was written."""


class OutcomeUnknown(StoreError):
    """The answer was lost: it may or may not have been done. Repeating with the same id or key is safe."""


class PartlyStored(OutcomeUnknown):
    """Of what was to be stored in several partitions, some is stored and some is not, or perhaps not.

    `stored` has the ids of the jobs or events that are stored for sure, `missing` those of the others. With
    ids of their own they can all be given again.
    """

    def __init__(self, message: str, stored: tuple[str, ...] = (), missing: tuple[str, ...] = ()) -> None:
        super().__init__(message, stored, missing)
        self.stored = stored
        self.missing = missing

    def __str__(self) -> str:
        return str(self.args[0])


class SchemaMismatch(StoreError):
    """The schema is missing, too old, or too new for this version of Holdfast."""


class DeliveryFailed(HoldfastError):
    """Whom events are relayed to did not acknowledge them. The same again may work."""


class ResultError(HoldfastError):
    """A job ended, or is gone, without a value to give."""


class JobFailed(ResultError):
    """The job used up its attempts; `reason` says why and `error` has the last traceback."""

    def __init__(self, job_id: str, reason: str | None, error: str | None) -> None:
        super().__init__(f"job {job_id} failed: {reason or 'no reason recorded'}")
        self.job_id = job_id
        self.reason = reason
        self.error = error


class JobCancelled(ResultError):
    """The job was cancelled."""


class ResultNotKept(ResultError):
    """The job succeeded, but its task keeps no results, or it completed in a transaction without one."""


class JobGone(ResultError):
    """No job of that id is stored: it was never there, was deleted, or retention removed it."""


class NotInTransaction(HoldfastError):
    """The given connection has no open transaction to join."""


class NotOpen(HoldfastError, RuntimeError):
    """The application is not open where it is used; the message says how to open it."""


class BlockingCallOnLoop(HoldfastError, RuntimeError):
    """A blocking call was made on a running event loop; the message names the async call."""


class AzureRefused(HoldfastError):
    """Azure did not do what it was asked; `code` is its own word for why, where it gave one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class NotSignedIn(HoldfastError):
    """Azure cannot be asked, because nobody is signed in here."""


class NotProvisioned(HoldfastError):
    """What was wanted is not all there. Running the same again goes on from where this ended."""

"""Background jobs and recurring work that survive crashes, on the database you already have."""

from holdfast.app import Holdfast
from holdfast.engine.batches import Batch, BatchInfo
from holdfast.engine.client import CancelAnswer, Page
from holdfast.engine.context import Context, Transaction
from holdfast.engine.events import GroupInfo, WaitingInfo
from holdfast.engine.leader import LeaderInfo
from holdfast.engine.lock_grant import Grant
from holdfast.engine.partition import PartitionInfo
from holdfast.model.cron import Cron, cron
from holdfast.model.errors import (
    BlockingCallOnLoop,
    ConfigurationError,
    Conflict,
    DeliveryFailed,
    GroupGone,
    HoldfastError,
    IdConflict,
    InvalidEvent,
    InvalidJob,
    InvalidLock,
    InvalidTransition,
    JobCancelled,
    JobFailed,
    JobGone,
    KeyConflict,
    LeaseLost,
    LockLost,
    LockTimeout,
    NotInTransaction,
    NotOpen,
    OutcomeUnknown,
    PartlyStored,
    PayloadTooLarge,
    ResultError,
    ResultNotKept,
    ScheduleGone,
    SchemaMismatch,
    StaleToken,
    StateConflict,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Undecodable,
    Undeliverable,
    UnknownTask,
    VersionConflict,
)
from holdfast.model.events import Event, EventRecord
from holdfast.model.explanation import Explanation
from holdfast.model.job import Attempt, Job
from holdfast.model.lifecycle import Ending, State
from holdfast.model.limits import Limit, LimitInfo
from holdfast.model.overview import Counts, LockInfo, QueueInfo, Stats, WorkerInfo
from holdfast.model.plan import Firing, ScheduleInfo
from holdfast.model.recurrence import At, Every, at, every
from holdfast.model.report import Lateness, QueueReport, WorkerReport
from holdfast.model.retry import (
    Again,
    ByException,
    Custom,
    Exponential,
    Failure,
    Fixed,
    Immediate,
    Linear,
    Never,
    Retry,
    RetryStrategy,
)
from holdfast.model.settings import Settings
from holdfast.model.strategy import Rotating, Strategy, Strict, Weighted
from holdfast.model.task import Call
from holdfast.model.timing import Seconds
from holdfast.task import Task

__all__ = [
    "Again",
    "At",
    "Attempt",
    "Batch",
    "BatchInfo",
    "BlockingCallOnLoop",
    "ByException",
    "Call",
    "CancelAnswer",
    "ConfigurationError",
    "Conflict",
    "Context",
    "Counts",
    "Cron",
    "Custom",
    "DeliveryFailed",
    "Ending",
    "Event",
    "EventRecord",
    "Every",
    "Explanation",
    "Exponential",
    "Failure",
    "Firing",
    "Fixed",
    "Grant",
    "GroupGone",
    "GroupInfo",
    "Holdfast",
    "HoldfastError",
    "IdConflict",
    "Immediate",
    "InvalidEvent",
    "InvalidJob",
    "InvalidLock",
    "InvalidTransition",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobGone",
    "KeyConflict",
    "Lateness",
    "LeaderInfo",
    "LeaseLost",
    "Limit",
    "LimitInfo",
    "Linear",
    "LockInfo",
    "LockLost",
    "LockTimeout",
    "Never",
    "NotInTransaction",
    "NotOpen",
    "OutcomeUnknown",
    "Page",
    "PartitionInfo",
    "PartlyStored",
    "PayloadTooLarge",
    "QueueInfo",
    "QueueReport",
    "ResultError",
    "ResultNotKept",
    "Retry",
    "RetryStrategy",
    "Rotating",
    "ScheduleGone",
    "ScheduleInfo",
    "SchemaMismatch",
    "Seconds",
    "Settings",
    "StaleToken",
    "State",
    "StateConflict",
    "Stats",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Strategy",
    "Strict",
    "Task",
    "Transaction",
    "Undecodable",
    "Undeliverable",
    "UnknownTask",
    "VersionConflict",
    "WaitingInfo",
    "Weighted",
    "WorkerInfo",
    "WorkerReport",
    "__version__",
    "at",
    "cron",
    "every",
]

__version__ = "0.1.0"

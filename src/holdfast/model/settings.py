"""All settings, with their units in their names. Where they come from is told in `holdfast.config`."""

from __future__ import annotations

import math

import msgspec

from holdfast.model.encryption import parse_keys
from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.masking import mask_url
from holdfast.model.names import check_name
from holdfast.model.retry import BY_NAME, RetryStrategy
from holdfast.model.secret import HIDDEN
from holdfast.model.timing import Timing

LOG_FORMATS = ("logfmt", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
SECRET_SETTINGS = frozenset({"encryption_keys"})
"""Never shown anywhere, not even in part."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One application's settings.

    A value that cannot work is refused with ConfigurationError naming the setting.
    """

    store: str = "sqlite:///holdfast.db"
    namespace: str = "default"
    auto_migrate: bool | None = None
    """None: made automatically on memory and SQLite only."""
    preset: str | None = None
    """Where settings came from that nothing else names; `holdfast.config` reads it."""

    lease_seconds: float = 120.0
    heartbeat_seconds: float | None = None
    call_timeout_seconds: float | None = None
    poll_seconds: float = 1.0
    concurrency: int = 10
    batch: int = 500
    """The most moves, and the most claims, in one tick."""
    prefetch_seconds: float = 5.0
    """How long a claimed job may wait unstarted before it goes back."""
    grace_seconds: float = 30.0
    """How long running jobs may go on after the first signal."""
    kill_seconds: float = 5.0
    """How long a cancelled attempt may take to end before it is given up, or its process killed."""

    retry: str = "exponential"
    """What follows a failure of a task that does not say."""
    interval_seconds: float | None = None
    """How long after the start of its last run a schedule without a recurrence is due; None: it needs one."""

    leader_candidate: bool = True
    """Whether a worker stands for election, to fire schedules when it leads."""
    leader_lease_seconds: float = 15.0

    event_consumer: bool = True
    """Whether a worker tells the application's handlers of events."""

    reclaim_seconds: float = 2.0
    lost_limit: int = 5
    retention_seconds: float = 7 * 86_400.0
    event_retention_seconds: float = 7 * 86_400.0
    """How long events are kept, at least; longer while a group has not passed them."""
    key_ttl_seconds: float = 86_400.0
    enqueue_timeout_seconds: float = 10.0

    payload_bytes: int = 262_144
    result_bytes: int = 1_048_576
    error_bytes: int = 16_384

    encryption_keys: str | None = None
    """Keys that encrypt what jobs and events carry: the first one encrypts, all decrypt; secret."""
    encryption_keys_file: str | None = None
    """A file with these keys, instead."""
    redact_names: str | None = None
    """What is hidden by name beside `redaction.NAMES`, separated by commas; `-name` shows one of those."""

    log_format: str = "logfmt"
    log_level: str = "info"

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, self.shown(name)) for name in self.__struct_fields__]

    def shown(self, name: str) -> object:
        """The value of a setting, fit to be shown."""
        value = getattr(self, name)
        if name == "store":
            return mask_url(self.store)
        return HIDDEN if name in SECRET_SETTINGS and value is not None else value

    def __post_init__(self) -> None:
        try:
            check_name(self.namespace, "namespace")
        except InvalidJob as error:
            raise ConfigurationError(str(error)) from None
        ranges: dict[str, tuple[float, float]] = {
            "poll_seconds": (0.01, 3600),
            "concurrency": (1, 10_000),
            "batch": (1, 1_000),
            "prefetch_seconds": (0, 3600),
            "grace_seconds": (0, 86_400),
            "kill_seconds": (0.01, 3600),
            "leader_lease_seconds": (0.5, 3600),
            "reclaim_seconds": (0.05, 5),
            "lost_limit": (1, 1_000_000_000),
            "retention_seconds": (0, 10 * 366 * 86_400),
            "event_retention_seconds": (0, 100 * 366 * 86_400),
            "key_ttl_seconds": (0, 10 * 366 * 86_400),
            "enqueue_timeout_seconds": (0.05, 3600),
            "payload_bytes": (1, 16 * 1_048_576),
            "result_bytes": (1, 64 * 1_048_576),
            "error_bytes": (256, 1_048_576),
        }
        if self.interval_seconds is not None:
            ranges["interval_seconds"] = (1, 100 * 366 * 86_400)
        for setting, (low, high) in ranges.items():
            value = getattr(self, setting)
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigurationError(f"{value!r} is not between {low:g} and {high:g}", setting=setting)
        if self.encryption_keys is not None:
            if self.encryption_keys_file is not None:
                raise ConfigurationError("give keys or a file, not both", setting="encryption_keys_file")
            parse_keys(self.encryption_keys)
        choices = {"retry": tuple(BY_NAME), "log_format": LOG_FORMATS, "log_level": LOG_LEVELS}
        for setting, known in choices.items():
            if (value := getattr(self, setting)) not in known:
                raise ConfigurationError(f"{value!r} is not one of {', '.join(known)}", setting=setting)
        _ = self.timing

    @property
    def retry_strategy(self) -> RetryStrategy:
        return BY_NAME[self.retry]

    @property
    def timing(self) -> Timing:
        return Timing.from_seconds(self.lease_seconds, self.heartbeat_seconds, self.call_timeout_seconds)

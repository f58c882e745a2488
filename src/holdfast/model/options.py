"""What a caller may say about one job beside its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias, cast
from uuid import UUID

from holdfast.model.errors import InvalidJob
from holdfast.model.flow import NewFlow
from holdfast.model.names import check_id, check_name, known_id
from holdfast.model.retry import RetryStrategy, encode_retry
from holdfast.model.timing import SECOND, Seconds, instant, micros

MOST_TAGS = 20
MOST_AFTER = 1_000
_LOWEST, _HIGHEST = -32_768, 32_767

OnFailure: TypeAlias = Literal["continue", "halt"]


class Named(Protocol):
    """A job that was stored."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller says about one job beside its arguments, checked. Durations are in microseconds."""

    delay: int | None = None
    at: int | None = None
    priority: int | None = None
    queue: str | None = None
    key: str | None = None
    key_ttl: int | None = None
    id: str | None = None
    tags: tuple[str, ...] | None = None
    retry: bytes | None = None
    timeout: int | None = None
    lease: int | None = None
    limit_key: str | None = None
    fair_key: str | None = None
    sequence_key: str | None = None
    halts: bool | None = None
    after: tuple[str, ...] | None = None
    after_any: bool | None = None
    expires: int | None = None
    before: str | None = None

    @classmethod
    def of(
        cls,
        *,
        delay: Seconds | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        key: str | None = None,
        key_ttl: Seconds | None = None,
        id: str | UUID | None = None,
        tags: Sequence[str] | None = None,
        retry: RetryStrategy | None = None,
        timeout: Seconds | None = None,
        lease: Seconds | None = None,
        limit_key: str | None = None,
        fair_key: str | None = None,
        sequence_key: str | None = None,
        on_failure: OnFailure | None = None,
        after: Sequence[Named | str | UUID] | None = None,
        after_any: bool | None = None,
        expires: Seconds | None = None,
    ) -> Options:
        """Options as a user gives them; InvalidJob names the one that is wrong."""
        if delay is not None and at is not None:
            raise InvalidJob("delay", "delay and at exclude each other; give one of them")
        if key_ttl is not None and key is None:
            raise InvalidJob("key_ttl", "it needs a key")
        return cls(
            delay=optional_micros(delay, "delay"),
            at=check_due(at),
            priority=None if priority is None else check_priority(priority),
            queue=None if queue is None else check_name(queue, "queue"),
            key=None if key is None else check_name(key, "key"),
            key_ttl=optional_micros(key_ttl, "key_ttl"),
            id=None if id is None else check_id(id),
            tags=None if tags is None else check_tags(tags),
            retry=None if retry is None else encode_retry(retry),
            timeout=check_timeout(timeout),
            lease=check_lease(lease),
            limit_key=None if limit_key is None else check_name(limit_key, "limit_key"),
            fair_key=None if fair_key is None else check_name(fair_key, "fair_key"),
            sequence_key=None if sequence_key is None else check_name(sequence_key, "sequence_key"),
            halts=check_on_failure(on_failure),
            after=None if after is None else check_after(after),
            after_any=after_any,
            expires=check_expires(expires),
        )

    @property
    def is_ordered(self) -> bool:
        """Whether it matters which of several jobs is stored first."""
        return self.key is not None or self.flow is not None

    @property
    def flow(self) -> NewFlow | None:
        """What a job with these options waits for beside its due time; None if for nothing."""
        flow = NewFlow(
            limit_key=self.limit_key,
            fair_key=self.fair_key,
            sequence=self.sequence_key,
            halts=bool(self.halts) and self.sequence_key is not None,
            after=self.after or (),
            after_any=bool(self.after_any) and bool(self.after),
            before=self.before,
            expires=self.expires,
        )
        return None if flow == _NO_FLOW else flow

    def over(self, earlier: Options) -> Options:
        """These options, and the earlier ones where these say nothing; delay and at replace each other."""
        said = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}
        if "delay" in said or "at" in said:
            said = {"delay": None, "at": None, **said}
        return replace(earlier, **said)


NO_OPTIONS = Options()
_NO_FLOW = NewFlow()


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags, each once; InvalidJob for too many or a bad one."""
    checked = tuple(dict.fromkeys(check_name(tag, "tags") for tag in several(tags, "tags")))
    if len(checked) > MOST_TAGS:
        raise InvalidJob("tags", f"{len(checked)} tags are more than {MOST_TAGS}")
    return checked


def check_priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not _LOWEST <= value <= _HIGHEST:
        raise InvalidJob("priority", f"{value!r} is not a whole number between {_LOWEST} and {_HIGHEST}")
    return int(value)


def several(values: Sequence[str], field: str) -> Sequence[str]:
    if isinstance(values, str):
        raise InvalidJob(field, f"give a list, for instance [{values!a}]")
    return values


def optional_micros(value: object, field: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidJob(field, f"{value!a} is neither a number of seconds nor a timedelta")
    return micros(value, field)


def check_timeout(value: Seconds | None) -> int | None:
    timeout = optional_micros(value, "timeout")
    if timeout == 0:
        raise InvalidJob("timeout", "it must be more than 0; None means no limit")
    return timeout


def check_lease(value: Seconds | None) -> int | None:
    lease = optional_micros(value, "lease")
    if lease is not None and not SECOND // 100 <= lease <= 86_400 * SECOND:
        raise InvalidJob("lease", f"{value!r} is not between 0.01 and 86400 seconds")
    return lease


def check_expires(value: Seconds | None) -> int | None:
    expires = optional_micros(value, "expires")
    if expires == 0:
        raise InvalidJob("expires", "it must be more than 0; None means never")
    return expires


def check_on_failure(value: object) -> bool | None:
    """Whether a job that has failed for good halts its sequence."""
    if value is None:
        return None
    if value not in ("continue", "halt"):
        raise InvalidJob("on_failure", f"{value!a} is neither 'continue' nor 'halt'")
    return value == "halt"


def check_after(values: object) -> tuple[str, ...]:
    """The ids of jobs, each once; InvalidJob for too many or a bad one."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidJob("after", "give a list of jobs or ids")
    checked = tuple(dict.fromkeys(_id_of(each) for each in cast("Sequence[object]", values)))
    if len(checked) > MOST_AFTER:
        raise InvalidJob("after", f"{len(checked)} jobs are more than {MOST_AFTER}; put them into a batch")
    return checked


def _id_of(value: object) -> str:
    found = known_id(value if isinstance(value, str | UUID) else getattr(value, "id", None))
    if found is None:
        raise InvalidJob("after", f"{ascii(value)[:60]} is neither a job that was enqueued nor the id of one")
    return found


def check_due(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidJob("at", f"{value!a} is not a datetime")
    return instant(value, "at")

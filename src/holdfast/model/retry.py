"""What follows a failure: strategies that say whether, when, and at whose cost to try again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias, Union

import msgspec

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.timing import Seconds, seconds


class Retry(Exception):
    """Raise it in a handler to be tried again after a while.

    It counts as a failure unless `count` is False, and the task's strategy still says when attempts are used
    up.
    """

    def __init__(self, after: Seconds = 0, *, count: bool = True, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked to be tried again")
        self.after = seconds(after)
        self.count = count


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    `failures` includes this one; `error` is None when it was not an exception of the handler.
    """

    failures: int
    run: int
    task: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class Again:
    """Try again `after` seconds; None leaves the due time unchanged and releases at once."""

    after: float | None
    count: bool = True


class RetryStrategy(Protocol):
    """Decides after each failure.

    Give None to stop. `random` is a number in [0, 1) drawn for this decision.
    """

    def decide(self, failure: Failure, random: float) -> Again | None: ...


_DURATIONS = frozenset({"base", "cap", "step", "wait"})


class _Bounded(msgspec.Struct, frozen=True, tag=True):
    max_retries: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, timedelta) and name in _DURATIONS:
                value = value.total_seconds()
                msgspec.structs.force_setattr(self, name, value)
            whole = name == "max_retries"
            if not isinstance(value, int if whole else int | float) or not 0 <= value < 1e9:
                kind = "a whole number" if whole else "a number"
                raise ConfigurationError(f"{value!r} is not {kind} from 0 to 1e9", setting=f"retry.{name}")

    def decide(self, failure: Failure, random: float) -> Again | None:
        if failure.failures > self.max_retries:
            return None
        return Again(self.delay(failure.failures, random))

    def delay(self, failures: int, random: float) -> float:
        raise NotImplementedError


class Exponential(_Bounded, frozen=True, tag="exponential"):
    """Waits base, base × factor, base × factor² … seconds, at most `cap`, plus up to `jitter` of that."""

    base: Seconds = 2.0
    factor: float = 2.0
    cap: Seconds = 3600.0
    jitter: float = 0.5

    def delay(self, failures: int, random: float) -> float:
        base, cap = seconds(self.base), seconds(self.cap)
        try:
            plain = min(cap, base * float(self.factor) ** (failures - 1))
        except OverflowError:
            plain = cap if base else 0.0
        return plain * (1 + self.jitter * random)


class Linear(_Bounded, frozen=True, tag="linear"):
    """Waits step, 2 × step, 3 × step … seconds, at most `cap`, plus up to `jitter` of that."""

    step: Seconds = 10.0
    cap: Seconds = 3600.0
    jitter: float = 0.5

    def delay(self, failures: int, random: float) -> float:
        return min(seconds(self.cap), seconds(self.step) * failures) * (1 + self.jitter * random)


class Fixed(_Bounded, frozen=True, tag="fixed"):
    """Waits the same time each time, plus up to `jitter` of that."""

    wait: Seconds = 10.0
    jitter: float = 0.0

    def delay(self, failures: int, random: float) -> float:
        return seconds(self.wait) * (1 + self.jitter * random)


class Immediate(msgspec.Struct, frozen=True, tag="immediate"):
    """Release at once, without limit and without counting; the due time stays as it was."""

    def decide(self, failure: Failure, random: float) -> Again | None:
        return Again(None, count=False)


class Never(msgspec.Struct, frozen=True, tag="never"):
    """One attempt only."""

    def decide(self, failure: Failure, random: float) -> Again | None:
        return None


Storable: TypeAlias = Union[Exponential, Linear, Fixed, Immediate, Never]  # noqa: UP007  msgspec reads it at run time

BY_NAME: Mapping[str, RetryStrategy] = {
    "exponential": Exponential(),
    "linear": Linear(),
    "fixed": Fixed(),
    "immediate": Immediate(),
    "never": Never(),
}
"""What the setting `retry` may name, each with its defaults."""


@dataclass(frozen=True, slots=True)
class ByException:
    """The first rule whose exception type matches decides; `otherwise` decides for the rest."""

    rules: Mapping[type[BaseException], RetryStrategy]
    otherwise: RetryStrategy

    def decide(self, failure: Failure, random: float) -> Again | None:
        for kind, strategy in self.rules.items():
            if isinstance(failure.error, kind):
                return strategy.decide(failure, random)
        return self.otherwise.decide(failure, random)


@dataclass(frozen=True, slots=True)
class Custom:
    """A plain function as a strategy: how long to wait, or None to stop."""

    function: Callable[[Failure], Seconds | None]

    def decide(self, failure: Failure, random: float) -> Again | None:
        after = self.function(failure)
        return None if after is None else Again(seconds(after))


def most_retries(strategy: RetryStrategy) -> int | None:
    """How many retries it allows; None if that is not known, or without limit."""
    if isinstance(strategy, Never):
        return 0
    return strategy.max_retries if isinstance(strategy, _Bounded) else None


_decoder: msgspec.json.Decoder[Storable] = msgspec.json.Decoder(Storable)


def check_retry(strategy: RetryStrategy) -> RetryStrategy:
    """The strategy itself; InvalidJob for what cannot decide."""
    if callable(getattr(strategy, "decide", None)) and not isinstance(strategy, type):
        return strategy
    raise InvalidJob(
        "retry", f"{strategy!a} is not a retry strategy; give one, for instance Exponential(max_retries=5)"
    )


def encode_retry(strategy: RetryStrategy) -> bytes:
    """The strategy as stored with a single job; only the plain ones can be."""
    if not isinstance(strategy, Exponential | Linear | Fixed | Immediate | Never):
        raise InvalidJob(
            "retry",
            f"{type(strategy).__name__} cannot be stored with a job; set it on the task, or use Exponential, "
            "Linear, Fixed, Immediate or Never",
        )
    return msgspec.json.encode(strategy)


def decode_retry(stored: bytes) -> RetryStrategy:
    """Raises msgspec.DecodeError for what is not a stored strategy."""
    try:
        return _decoder.decode(stored)
    except (ConfigurationError, UnicodeDecodeError, RecursionError) as error:
        raise msgspec.ValidationError(str(error)) from error

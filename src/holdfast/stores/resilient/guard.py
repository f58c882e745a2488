"""One call to the store, from the first try to the last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from holdfast.model.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from holdfast.stores.resilient.breaker import Breaker

T = TypeVar("T")
Send: TypeAlias = Callable[[], Awaitable[T]]

FIRST_PAUSE = 0.01
"""So short that nobody notices a deadlock or a killed backend."""

LONGEST_PAUSE = 0.5


class Guard:
    """Sends calls, again after a transient fault, and not at all while the breaker refuses.

    Pauses double, each a random part of the whole (full jitter). No try begins later than `retry_seconds`
    after the first fault. How long one try may take is for the store and the caller to say: a cancellation
    passes through at once.
    """

    def __init__(
        self,
        breaker: Breaker,
        *,
        retry_seconds: float = 3.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._breaker = breaker
        self._seconds = retry_seconds
        self._sleep = sleep
        self._clock = clock
        self._wait = wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)

    async def call(
        self,
        send: Send[T],
        *,
        resend: Send[T] | None = None,
        is_repeatable: bool = True,
        is_patient: bool = False,
    ) -> T:
        """The store's answer.

        After an unknown outcome `resend` goes out if it is given, else `send` again; one that is not
        repeatable passes the fault on. While the circuit is open a patient call waits for its trial, within
        the same time; any other fails at once.
        """
        breaker = self._breaker
        if breaker.is_failing:
            return await self._insist(_Tries(breaker, send, resend or send), is_repeatable, is_patient)
        try:
            answer = await send()
        except Exception as error:
            if not is_transient(error):
                raise
            tries = _Tries(breaker, send, resend or send)
            tries.missed(error)
        else:
            if self._breaker.is_failing:
                breaker.succeeded()
            return answer
        return await self._insist(tries, is_repeatable, is_patient)

    async def _insist(self, tries: _Tries[T], is_repeatable: bool, is_patient: bool) -> T:
        deadline = 0.0

        def is_worth_it(error: BaseException) -> bool:
            if not is_transient(error) or not (is_repeatable or tries.unknown is None):
                return False
            return is_patient or not self._breaker.is_open

        def is_too_late(state: RetryCallState) -> bool:
            nonlocal deadline
            now = self._clock()
            if state.attempt_number == 1:
                deadline = now + self._seconds
            return now + state.upcoming_sleep >= deadline

        # A new one each time: it keeps the state of the call under way for its thread, not for its task.
        retrying = AsyncRetrying(
            sleep=self._sleep,
            wait=self._wait,
            retry=retry_if_exception(is_worth_it),
            stop=is_too_late,
            reraise=True,
        )
        try:
            answer: T = await retrying(tries.next)
        except StoreUnavailable as error:
            if tries.is_refused:
                self._breaker.count_refused()
            if tries.unknown is None:
                raise
            raise OutcomeUnknown(f"{tries.unknown}; sending it again failed: {error}") from error
        return answer


class _Tries(Generic[T]):
    """The tries of one call: whether one was perhaps done, and whether the last was not let through."""

    def __init__(self, breaker: Breaker, send: Send[T], resend: Send[T]) -> None:
        self._breaker = breaker
        self._send = send
        self._resend = resend
        self._missed: Exception | None = None
        self._is_sent = False
        self.is_refused = False
        self.unknown: OutcomeUnknown | None = None

    def missed(self, error: Exception) -> None:
        """Takes in the fault of a try that was made elsewhere: the next one to be asked for."""
        self._failed(error)
        self._missed = error
        self._is_sent = True

    async def next(self) -> T:
        if self._missed is not None:
            missed, self._missed = self._missed, None
            raise missed
        self.is_refused = True
        self._breaker.admit()
        self.is_refused = False
        if self._is_sent:
            self._breaker.count_retry()
        self._is_sent = True
        try:
            answer = await (self._send() if self.unknown is None else self._resend())
        except Exception as error:
            if is_transient(error):
                self._failed(error)
            else:
                self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return answer

    def _failed(self, error: Exception) -> None:
        self._breaker.failed(error)
        if isinstance(error, OutcomeUnknown):
            self.unknown = error


def is_transient(error: BaseException) -> bool:
    """Whether the same call may work a moment later. A full store stays full."""
    return isinstance(error, StoreUnavailable | OutcomeUnknown) and not isinstance(error, StoreFull)

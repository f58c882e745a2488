"""Adding jobs: concurrent calls of one process share the store's commits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

from holdfast.engine.again import once_more
from holdfast.model.errors import OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.model.records import Added, NewJob, as_repeated
from holdfast.store import JobStore

_AT_ONCE = 2


class _Waiter:
    __slots__ = ("answer", "deadline", "jobs")

    def __init__(self, jobs: Sequence[NewJob], answer: asyncio.Future[list[Added]], deadline: float) -> None:
        self.jobs = jobs
        self.answer = answer
        self.deadline = deadline


class _Lone:
    """A call that was sent by the caller's own task. `ended` is made for who waits for its end."""

    __slots__ = ("cancelling", "deadline", "ended", "is_late", "task")

    def __init__(self, deadline: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.cancelling = task.cancelling()
        self.deadline = deadline
        self.is_late = False
        self.ended: asyncio.Future[None] | None = None


class Enqueuer:
    """Self-clocking group commit: while one `add` is under way the next jobs gather, then leave together.

    No timer delays anything: a lone call leaves at once, from the caller's own task. A caller that is
    cancelled takes nobody with it; its job is left out if it has not been sent. Each call ends within
    `timeout` seconds.
    """

    def __init__(self, store: JobStore, *, batch: int, timeout: float) -> None:
        self._store = store
        self._batch = batch
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiter] = deque()
        self._sent: list[_Waiter] = []
        self._lone: _Lone | None = None
        self._lone_watch: asyncio.TimerHandle | None = None
        self._sender: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        """Stores the jobs, at most a batch, in one commit with whatever else is waiting.

        Raises StoreUnavailable if they were not sent in time, OutcomeUnknown if they were and no answer came.
        """
        if self._sender is None and self._lone is None:
            return await self._add_alone(jobs)
        loop = self._loop
        answer: asyncio.Future[list[Added]] = loop.create_future()
        deadline = loop.time() + self._timeout
        self._waiting.append(_Waiter(jobs, answer, deadline))
        if self._watch is None:
            self._watch = loop.call_at(deadline, self._expire)
        return await answer

    async def add_many(
        self, batches: Iterable[list[NewJob]], *, in_order: bool
    ) -> AsyncGenerator[list[tuple[NewJob, Added]]]:
        """Stores batches, each in a commit of its own; their answers in order.

        The next batch is drawn and sent while one is being stored, unless they must be stored `in_order`. If
        the store fails after some batches it is OutcomeUnknown, which says how many jobs are stored.
        """
        most = 1 if in_order else _AT_ONCE
        stored = 0
        under_way: deque[tuple[list[NewJob], asyncio.Task[list[Added]]]] = deque()
        try:
            for batch in _and_none(batches):
                while under_way and (batch is None or len(under_way) >= most):
                    jobs, task = under_way[0]
                    added = await task
                    under_way.popleft()
                    stored += len(added)
                    yield list(zip(jobs, added, strict=True))
                if batch is not None:
                    under_way.append((batch, self._loop.create_task(self._add_apart(batch))))
                    await asyncio.sleep(0)
        except StoreError as error:
            ended = await asyncio.gather(*(task for _, task in under_way), return_exceptions=True)
            stored += sum(len(answers) for answers in ended if isinstance(answers, list))
            if not stored and not any(isinstance(answer, OutcomeUnknown) for answer in ended):
                raise
            raise OutcomeUnknown(f"{stored} jobs were stored, then: {error}") from error
        finally:
            for _, task in under_way:
                task.cancel()

    async def _add_apart(self, jobs: Sequence[NewJob]) -> list[Added]:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._add(jobs)
        except TimeoutError:
            raise OutcomeUnknown(self._late("no answer")) from None

    async def close(self) -> None:
        """Waits for what is under way."""
        while self._lone is not None or self._sender is not None:
            if self._lone is not None:
                self._lone.ended = self._lone.ended or self._loop.create_future()
                await asyncio.wait([self._lone.ended])
            elif self._sender is not None:
                await asyncio.wait([self._sender])
        if self._lone_watch is not None:
            self._lone_watch.cancel()

    async def _add_alone(self, jobs: Sequence[NewJob]) -> list[Added]:
        self._lone = lone = _Lone(self._loop.time() + self._timeout)
        # One timer serves many calls: to make one and cancel it costs as much as the rest of a call.
        if self._lone_watch is None:
            self._lone_watch = self._loop.call_at(lone.deadline, self._expire_lone)
        try:
            return await self._add(jobs)
        except asyncio.CancelledError:
            if lone.is_late and lone.task.uncancel() <= lone.cancelling:
                raise OutcomeUnknown(self._late("no answer")) from None
            raise
        finally:
            self._lone = None
            if lone.ended is not None:
                lone.ended.set_result(None)
            if self._waiting:
                self._sender = self._loop.create_task(self._send_all())

    def _expire_lone(self) -> None:
        """Cuts off a lone call that is overdue, or looks again when it may be."""
        lone, self._lone_watch = self._lone, None
        if lone is None:
            return
        if lone.deadline > self._loop.time():
            self._lone_watch = self._loop.call_at(lone.deadline, self._expire_lone)
        else:
            lone.is_late = True
            lone.task.cancel()

    async def _send_all(self) -> None:
        try:
            while self._gather():
                await self._send()
        finally:
            self._sender = None
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None
            for waiter in (*self._sent, *self._waiting):
                waiter.answer.cancel()
            self._sent = []
            self._waiting.clear()

    def _gather(self) -> bool:
        size = 0
        waiting, sent = self._waiting, self._sent
        sent.clear()
        while waiting and (not sent or size + len(waiting[0].jobs) <= self._batch):
            waiter = waiting.popleft()
            if not waiter.answer.done():
                sent.append(waiter)
                size += len(waiter.jobs)
        return bool(sent)

    async def _send(self) -> None:
        sent = self._sent
        jobs = [job for waiter in sent for job in waiter.jobs]
        try:
            async with asyncio.timeout_at(sent[-1].deadline):
                added = await self._add(jobs)
        except TimeoutError:
            for waiter in sent:
                _fail(waiter, OutcomeUnknown(self._late("no answer")))
        except StoreError as error:
            for waiter in sent:
                _fail(waiter, _copied(error))
        except Exception as error:  # noqa: BLE001  handed to its caller
            if len(sent) == 1:
                _fail(sent[0], error)
            else:
                await self._send_one_by_one(sent)
        else:
            start = 0
            for waiter in sent:
                end = start + len(waiter.jobs)
                if not waiter.answer.done():
                    waiter.answer.set_result(added[start:end])
                start = end

    async def _add(self, jobs: Sequence[NewJob]) -> list[Added]:
        try:
            return await self._store.add(jobs)
        except OutcomeUnknown as unknown:
            return await once_more(self._store.add(as_repeated(jobs)), unknown)

    async def _send_one_by_one(self, together: list[_Waiter]) -> None:
        """One job that the store cannot take must not take the others with it."""
        for waiter in list(together):
            if not waiter.answer.done():
                waiter.jobs = as_repeated(waiter.jobs)
                self._sent = [waiter]
                await self._send()

    def _expire(self) -> None:
        """Fails what is overdue, and looks again when the next one may be."""
        now = self._loop.time()
        while self._waiting and self._waiting[0].deadline <= now:
            waiter = self._waiting.popleft()
            _fail(waiter, StoreUnavailable(self._late("the job was not sent")))
        for waiter in self._sent:
            if waiter.deadline <= now:
                _fail(waiter, OutcomeUnknown(self._late("no answer")))
        following = [waiter for waiter in (*self._sent, *self._waiting) if waiter.deadline > now]
        self._watch = self._loop.call_at(following[0].deadline, self._expire) if following else None

    def _late(self, what: str) -> str:
        return f"{what} within {self._timeout:g} s (enqueue_timeout_seconds)"


def _and_none(batches: Iterable[list[NewJob]]) -> Iterator[list[NewJob] | None]:
    yield from batches
    yield None


def _fail(waiter: _Waiter, error: BaseException) -> None:
    if not waiter.answer.done():
        waiter.answer.set_exception(error)


def _copied(error: StoreError) -> StoreError:
    """One for each caller: an exception that is raised in many places gathers all their tracebacks."""
    copy = type(error)(*error.args)
    copy.__cause__ = error
    return copy

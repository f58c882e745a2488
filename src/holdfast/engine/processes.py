"""Handlers in processes of their own, for work that is CPU-bound or not to be trusted.

The parent holds the lease and can end the child: TERM, then KILL. Children are kept for the next job.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from holdfast.engine.frames import (
    HEADER,
    Assignment,
    Ceased,
    Progressed,
    Raised,
    Returned,
    Said,
    frame,
    said,
)
from holdfast.engine.hold import Hold
from holdfast.engine.runner import HoldLink, Runner, outcome_of
from holdfast.model.errors import LeaseLost
from holdfast.model.outcome import Failed, Outcome, Succeeded
from holdfast.model.retry import Retry
from holdfast.model.task import TaskDefinition


class Child:
    """One child process and the pipe to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def spawn(cls) -> Child:
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast.engine.child",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    async def run(self, assignment: Assignment, progress: Callable[[float, str | None], None]) -> Said:
        """The child's last word on the job. Raises EOFError if the child ended without one."""
        self._writer.write(frame(assignment))
        await self._writer.drain()
        while True:
            word = await self._hear()
            if not isinstance(word, Progressed):
                return word
            progress(word.fraction, word.note)

    async def _hear(self) -> Said:
        (length,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        return said.decode(await self._reader.readexactly(length))

    async def end(self, patience: float) -> int:
        """TERM, then KILL; the exit code."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                async with asyncio.timeout(patience):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        self._writer.close()
        return await self.process.wait()


class Processes:
    """Children, made when needed, used for one job at a time, and ended with the worker."""

    def __init__(self, runner: Runner, kill_seconds: float) -> None:
        self._runner = runner
        self._kill_seconds = kill_seconds
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def run(self, hold: Hold) -> Outcome:
        child: Child | None = None
        try:
            child = await self._take()
            word = await child.run(self._assignment(hold), HoldLink(hold, self._runner).progress)
        except asyncio.CancelledError as error:
            if child is not None:
                await self._end(child)
            return outcome_of(error, hold, self._runner.settings.error_bytes)
        except (EOFError, ConnectionError):
            assert child is not None
            return Failed(f"the child process {_described(await self._end(child))}")
        except OSError as error:
            return outcome_of(error, hold, self._runner.settings.error_bytes)
        self._idle.append(child)
        return self._outcome(hold, word)

    async def close(self) -> None:
        await asyncio.gather(*(child.end(self._kill_seconds) for child in self._all))
        self._all.clear()
        self._idle.clear()

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.process.returncode is None:
                return child
            await self._end(child)
        child = await Child.spawn()
        self._all.add(child)
        return child

    async def _end(self, child: Child) -> int:
        self._all.discard(child)
        return await child.end(self._kill_seconds)

    def _assignment(self, hold: Hold) -> Assignment:
        settings = self._runner.settings
        module, main = _home(hold.definition)
        return Assignment(
            module=module,
            main=main,
            name=hold.definition.function.__qualname__,
            record=hold.record,
            namespace=settings.namespace,
            result_bytes=settings.result_bytes,
            error_bytes=settings.error_bytes,
        )

    def _outcome(self, hold: Hold, word: Said) -> Outcome:
        if isinstance(word, Returned):
            hold.committed = word.committed
            return Succeeded(word.result, tuple(word.children))
        if isinstance(word, Raised):
            return Failed(word.reason, word.error, _exception(word))
        assert isinstance(word, Ceased)
        error = LeaseLost() if word.lease_lost else asyncio.CancelledError()
        return outcome_of(error, hold, self._runner.settings.error_bytes)


def _home(definition: TaskDefinition) -> tuple[str, str | None]:
    """The module of the handler; for a script, also its file, because a child has another `__main__`."""
    module = definition.function.__module__
    main: Any = sys.modules["__main__"]
    return module, getattr(main, "__file__", None) if module == "__main__" else None


def _described(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _exception(word: Raised) -> BaseException:
    """An exception of the class that the child named, for rules by type, if this process knows it."""
    if word.after is not None:
        return Retry(word.after, count=word.count)
    found: Any = sys.modules.get(word.module)
    for part in word.kind.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return found.__new__(found)
    return RuntimeError(word.reason)

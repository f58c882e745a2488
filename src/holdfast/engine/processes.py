"""Handlers in processes of their own, for work that is CPU-bound or not to be trusted.

The parent holds the lease and can end the child: TERM, then KILL. Children are kept for the next job.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from holdfast.engine.echo import levels
from holdfast.engine.failures import failed
from holdfast.engine.frames import SCRIPT, Assignment, Raised, Returned, Said
from holdfast.engine.hold import Hold
from holdfast.engine.offspring import Child
from holdfast.engine.runner import Ended, HoldLink, Runner, outcome_of, stopped
from holdfast.model.outcome import Failed, Outcome, Succeeded
from holdfast.model.retry import Retry
from holdfast.model.task import TaskDefinition


class Processes:
    """Children, made when needed, used for one job at a time, and ended with the worker."""

    def __init__(self, runner: Runner, kill_seconds: float) -> None:
        self._runner = runner
        self._kill_seconds = kill_seconds
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def run(self, hold: Hold, ended: Ended) -> None:
        """Runs a handler in a child, and tells its outcome."""
        ended(hold, await self._run(hold))

    async def _run(self, hold: Hold) -> Outcome:
        if hold.stop is not None:
            return stopped(hold, hold.stop)
        child: Child | None = None
        limit = self._runner.settings.error_bytes
        try:
            assignment = self._assignment(hold)
            child = await self._take()
            word = await child.run(assignment, HoldLink(hold, self._runner).progress)
        except (EOFError, ConnectionError) as error:
            if child is None:
                return failed(error, limit)
            self._all.discard(child)
            return Failed(f"the child process {_described(await child.bury(self._kill_seconds))}")
        except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001  nothing may end without an outcome
            if child is not None:
                self._all.discard(child)
                await child.end(self._kill_seconds)
            return outcome_of(error, hold, limit)
        self._idle.append(child)
        return self._outcome(hold, word)

    async def close(self) -> None:
        await asyncio.gather(*(child.end(self._kill_seconds) for child in self._all))
        self._all.clear()
        self._idle.clear()

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
            self._all.discard(child)
            await child.end(self._kill_seconds)
        child = await Child.spawn()
        self._all.add(child)
        return child

    def _assignment(self, hold: Hold) -> Assignment:
        settings = self._runner.settings
        module, main = _home(hold.definition)
        name = hold.definition.function.__qualname__
        if "<locals>" in name:
            raise TypeError(f"{name} is defined inside a function; to run in a process it must be outside")
        return Assignment(
            module=module,
            main=main,
            name=name,
            record=hold.record,
            store=settings.store,
            namespace=settings.namespace,
            result_bytes=settings.result_bytes,
            error_bytes=settings.error_bytes,
            levels=levels(),
            partition=self._runner.partition,
            trace=None if hold.span is None else dict(hold.span.carrier),
        )

    def _outcome(self, hold: Hold, word: Said) -> Outcome:
        if isinstance(word, Returned):
            hold.committed = word.committed
            return Succeeded(word.result, tuple(word.children), tuple(word.events))
        if isinstance(word, Raised):
            return Failed(word.reason, word.error, _exception(word))
        return outcome_of(asyncio.CancelledError(), hold, self._runner.settings.error_bytes)


def _home(definition: TaskDefinition) -> tuple[str, str | None]:
    """The module of the handler; for a script, also its file, because a child has another `__main__`."""
    module = definition.function.__module__
    if module != "__main__":
        return module, None
    main: Any = sys.modules["__main__"]
    if main.__spec__ is not None:
        # Started as `python -m name`: by that name it can be imported.
        return main.__spec__.name, None
    if not hasattr(main, "__file__"):
        raise TypeError("a handler that runs in a process must be defined in a file")
    return module, main.__file__


def _described(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _exception(word: Raised) -> BaseException:
    """An exception of the class that the child named, for rules by type, if this process knows it."""
    if word.after is not None:
        return Retry(word.after, count=word.count)
    found: Any = sys.modules.get("__main__" if word.module == SCRIPT else word.module)
    for part in word.kind.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        try:
            return found.__new__(found)
        except Exception:  # noqa: BLE001  its own constructor may ask for anything
            return RuntimeError(word.reason)
    return RuntimeError(word.reason)

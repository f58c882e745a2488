"""The child process of `run_in="process"`: takes one job after another from its parent and runs it.

The names of module and handler come from the parent's own registry, never from a store.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from holdfast.engine.context import Context, Link, Stopped
from holdfast.engine.frames import (
    HEADER,
    Assignment,
    Ceased,
    Progressed,
    Raised,
    Returned,
    assignments,
    frame,
)
from holdfast.engine.ids import new_id
from holdfast.engine.runner import failed, plain_text
from holdfast.model.errors import InvalidJob, LeaseLost
from holdfast.model.outcome import Stop, Succeeded, succeed
from holdfast.model.records import Move, NewJob
from holdfast.model.retry import Retry
from holdfast.model.task import Call, TaskDefinition
from holdfast.store import Transactions

PARENT_GONE = 70
_scripts: dict[str, dict[str, Any]] = {}


class PipeLink(Link):
    """The link of a handler in this process to the worker in the parent."""

    def __init__(self, pipe: socket.socket, assignment: Assignment, task: Any) -> None:
        self.record = assignment.record
        self.namespace = assignment.namespace
        self.worker = assignment.record.worker or ""
        self.children: list[NewJob] = []
        self.is_committed = False
        self.stop_asked: Stop | None = None
        self._pipe = pipe
        self._task = task
        self._assignment = assignment

    @property
    def stop(self) -> Stop | None:
        return self.stop_asked

    @property
    def transactions(self) -> Transactions | None:
        found: Transactions | None = self._task.app.store.transactions
        return found

    def progress(self, fraction: float, note: str | None) -> None:
        self._pipe.sendall(frame(Progressed(fraction, None if note is None else plain_text(note, 300))))

    def enqueue(self, call: Call) -> str:
        job = call.to_new_job(new_id())
        self.children.append(job)
        return job.id

    def success(self, value: object) -> Move:
        return succeed(self.record, 0, Succeeded(self.result(value), tuple(self.children)))

    def committed(self) -> None:
        self.is_committed = True

    def result(self, value: object) -> bytes | None:
        definition: TaskDefinition = self._task.definition
        if not definition.keep_result:
            return None
        try:
            return definition.encode_result(value, self._assignment.result_bytes)
        except InvalidJob as error:
            raise TypeError(f"the result cannot be stored: {error}") from None


def find_task(assignment: Assignment) -> Any:
    """The task object, by the path of its handler in the application's code."""
    found: Any
    if assignment.main is not None:
        if assignment.main not in _scripts:
            _scripts[assignment.main] = runpy.run_path(assignment.main, run_name="__holdfast_child__")
        first, *rest = assignment.name.split(".")
        found = _scripts[assignment.main][first]
    else:
        found, rest = importlib.import_module(assignment.module), assignment.name.split(".")
    for part in rest:
        found = getattr(found, part)
    return found


def perform(pipe: socket.socket, assignment: Assignment) -> Returned | Raised | Ceased:
    """Runs one job to its end and says how it ended."""
    try:
        task = find_task(assignment)
        link = PipeLink(pipe, assignment, task)
        value = _call(task.definition, link, task.app.state)
        return Returned(link.result(value), link.children, link.is_committed)
    except (Stopped, asyncio.CancelledError):
        return Ceased(lease_lost=False)
    except LeaseLost:
        return Ceased(lease_lost=True)
    except BaseException as error:  # noqa: BLE001  whatever user code does is one failed attempt
        told = failed(error, assignment.error_bytes)
        kind = type(error)
        raised = Raised(told.reason, told.error, kind.__module__, kind.__qualname__)
        if isinstance(error, Retry):
            raised.after, raised.count = error.after, error.count
        return raised


def _call(definition: TaskDefinition, link: PipeLink, state: Any) -> Any:
    args, kwargs = definition.decode_arguments(link.record.payload)
    if definition.takes_context:
        args = [Context(link, state), *args]
    if not inspect.iscoroutinefunction(definition.function):
        return _interruptible(definition, link, args, kwargs)
    return asyncio.run(_awaited(definition, link, args, kwargs))


def _interruptible(
    definition: TaskDefinition, link: PipeLink, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    def terminate(_number: int, _at: FrameType | None) -> None:
        link.stop_asked = Stop.CANCEL
        raise Stopped("terminated by the worker")

    signal.signal(signal.SIGTERM, terminate)
    try:
        return definition.function(*args, **kwargs)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


async def _awaited(
    definition: TaskDefinition, link: PipeLink, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(definition.function(*args, **kwargs))

    def terminate() -> None:
        link.stop_asked = Stop.CANCEL
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await task
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def listen(pipe: socket.socket, inbox: SimpleQueue[Assignment]) -> None:
    """Takes assignments off the pipe; ends the process, handler and all, when the parent is gone."""
    stream = pipe.makefile("rb")
    while True:
        header = stream.read(HEADER.size)
        if len(header) < HEADER.size:
            os._exit(PARENT_GONE)
        inbox.put(assignments.decode(stream.read(HEADER.unpack(header)[0])))


def main(descriptor: int) -> None:
    # Ctrl-C reaches the whole process group; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.insert(0, str(Path.cwd()))
    pipe = socket.socket(fileno=descriptor)
    inbox: SimpleQueue[Assignment] = SimpleQueue()
    threading.Thread(target=listen, args=(pipe, inbox), daemon=True).start()
    while True:
        pipe.sendall(frame(perform(pipe, inbox.get())))


if __name__ == "__main__":
    main(int(sys.argv[1]))

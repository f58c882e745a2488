"""The child process of `run_in="process"`: takes one job after another from its parent and runs it.

The names of module and handler come from the parent's own registry, never from a store.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import logging
import os
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from types import FrameType, ModuleType
from typing import Any

import msgspec

from holdfast.engine.context import Context, JobLink, Stopped
from holdfast.engine.echo import Echo, heed
from holdfast.engine.failures import committed_result, encoded_result, failed, one_line
from holdfast.engine.forks import end_copy, generation
from holdfast.engine.frames import (
    HEADER,
    PYTHONPATH,
    SCRIPT,
    Assignment,
    Ceased,
    Progressed,
    Raised,
    Returned,
    assignments,
    frame,
)
from holdfast.engine.ids import new_id, new_id_beside
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import made, unharmed
from holdfast.model.events import Event, NewEvent
from holdfast.model.outcome import Stop, Succeeded, succeed
from holdfast.model.records import Move, NewJob
from holdfast.model.retry import Retry
from holdfast.model.task import Call, TaskDefinition
from holdfast.store import Store, Transactions
from holdfast.store.partitions import Partitioned

PARENT_GONE = 70


class Pipe:
    """The way to the parent, for one message at a time.

    Without a parent the process ends, handler and all.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def say(self, message: msgspec.Struct) -> None:
        word = frame(message)
        with self._lock:
            try:
                self._connection.sendall(word)
            except ConnectionError:
                os._exit(PARENT_GONE)


class PipeLink(JobLink):
    """The link of a handler in this process to the worker in the parent."""

    def __init__(self, pipe: Pipe, assignment: Assignment, task: Any) -> None:
        self.record = assignment.record
        self.namespace = assignment.namespace
        self.worker = assignment.record.worker or ""
        self.children: list[NewJob] = []
        self.events: list[NewEvent] = []
        self.is_committed = False
        self.stop_asked: Stop | None = None
        self._pipe = pipe
        self._task = task
        self._notices: Notices = task.app.notices
        self._assignment = assignment
        self._lock = threading.Lock()
        self._is_open = True

    @property
    def stop(self) -> Stop | None:
        return self.stop_asked

    @property
    def transactions(self) -> Transactions | None:
        store: Store = self._task.app.store
        part = self._assignment.partition
        if part is not None and isinstance(store, Partitioned):
            return store.parts[part].transactions
        return store.transactions

    def progress(self, fraction: float, note: str | None) -> None:
        with self._lock:
            if self._is_open:
                self._pipe.say(Progressed(float(fraction), None if note is None else one_line(note)))

    def enqueue(self, call: Call) -> str:
        job = made(self._notices, call.to_new_job(new_id_beside(self.record.id)), self._assignment.trace)
        self.children.append(job)
        return job.id

    def emit(self, event: Event[Any]) -> str:
        stored = event.stored(new_id(), self._task.app.settings.payload_bytes)
        new = made(self._notices, stored, self._assignment.trace)
        self.events.append(new)
        return new.id

    def success(self, value: object) -> Move:
        result = committed_result(self._task.definition, value, self._assignment.result_bytes)
        return succeed(self.record, 0, Succeeded(result, tuple(self.children), tuple(self.events)))

    def committed(self) -> None:
        self.is_committed = True

    def resume(self, context: contextvars.Context) -> None:
        """Has the handler go on in this context with what its worker's tracer began, if there is one here."""
        tracer, trace = self._notices.tracer, self._assignment.trace
        if tracer is not None and trace is not None:
            with unharmed():
                context.run(tracer.resuming, trace)

    def result(self, value: object) -> bytes | None:
        return encoded_result(self._task.definition, value, self._assignment.result_bytes)

    def close(self) -> None:
        """Lets nothing more out: a thread that the handler left behind must not report on the next job."""
        with self._lock:
            self._is_open = False


def find_task(assignment: Assignment) -> Any:
    """The task object, by the path of its handler in the application's code."""
    if assignment.main is not None:
        found: Any = _script(assignment.main)
    else:
        found = importlib.import_module(assignment.module)
    for part in assignment.name.split("."):
        found = getattr(found, part)
    return found


def _script(path: str) -> ModuleType:
    """The script that the parent runs as its program, as a module, run once."""
    module = sys.modules.get(SCRIPT)
    if module is None:
        content = runpy.run_path(path, run_name=SCRIPT)
        module = sys.modules[SCRIPT] = ModuleType(SCRIPT)
        module.__dict__.update(content)
    return module


def perform(pipe: Pipe, assignment: Assignment) -> Returned | Raised | Ceased:
    """Runs one job to its end and says how it ended."""
    link: PipeLink | None = None
    heed(assignment.levels)
    try:
        task = find_task(assignment)
        task.app.serve_handler(store=assignment.store, namespace=assignment.namespace)
        link = PipeLink(pipe, assignment, task)
        value = _call(task.definition, link, task.app.state)
        return Returned(link.result(value), link.children, link.events, link.is_committed)
    except asyncio.CancelledError:
        return Ceased()
    except BaseException as error:  # noqa: BLE001  whatever user code does is one failed attempt
        told = failed(error, assignment.error_bytes)
        kind = type(error)
        raised = Raised(told.reason, told.error, kind.__module__, kind.__qualname__)
        if isinstance(error, Retry):
            raised.after, raised.count = error.after, error.count
        return raised
    finally:
        if link is not None:
            link.close()


def _call(definition: TaskDefinition, link: PipeLink, state: Any) -> Any:
    args, kwargs = definition.decode_arguments(link.record.payload)
    if definition.takes_context:
        args = [Context(link, state), *args]
    # A fresh context, so that what one handler binds is not seen by the next one in this process.
    context = contextvars.Context()
    link.resume(context)
    if not inspect.iscoroutinefunction(definition.function):
        return _interruptible(definition, link, args, kwargs, context)
    return context.run(asyncio.run, _awaited(definition, link, args, kwargs))


def _interruptible(
    definition: TaskDefinition,
    link: PipeLink,
    args: list[Any],
    kwargs: dict[str, Any],
    context: contextvars.Context,
) -> Any:
    def terminate(_number: int, _at: FrameType | None) -> None:
        link.stop_asked = Stop.CANCEL
        raise Stopped("terminated by the worker")

    signal.signal(signal.SIGTERM, terminate)
    try:
        return context.run(definition.function, *args, **kwargs)
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


def listen(connection: socket.socket, inbox: SimpleQueue[Assignment]) -> None:
    """Takes assignments off the pipe, until the parent is gone."""
    stream = connection.makefile("rb")
    try:
        while len(header := stream.read(HEADER.size)) == HEADER.size:
            inbox.put(assignments.decode(stream.read(HEADER.unpack(header)[0])))
    finally:
        os._exit(PARENT_GONE)


# A fork that the handler makes has its signals to itself: they must neither cancel the handler nor be
# swallowed.


def _hold_back() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def _let_in() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _forget() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_in()


def main(descriptor: int, python_path: str | None) -> None:
    """Serves the parent. `python_path` is what the variable was before it was set for this process."""
    os.environ.pop(PYTHONPATH)
    if python_path is not None:
        os.environ[PYTHONPATH] = python_path
    sys.path.insert(0, str(Path.cwd()))
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    pipe = Pipe(connection)
    logging.getLogger().addHandler(Echo(pipe.say))
    os.register_at_fork(before=_hold_back, after_in_parent=_let_in, after_in_child=_forget)
    inbox: SimpleQueue[Assignment] = SimpleQueue()
    threading.Thread(target=listen, args=(connection, inbox), daemon=True).start()
    before = generation()
    while True:
        word = perform(pipe, inbox.get())
        end_copy(before)
        pipe.say(word)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)

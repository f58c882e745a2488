"""A child process as its parent sees it, and the pipe between them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from holdfast.engine.echo import write
from holdfast.engine.frames import HEADER, PYTHONPATH, Assignment, Logged, Progressed, Said, frame, said


class Child:
    """One child process, in a session of its own, so that a Ctrl-C in the terminal does not reach it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pipe: socket.socket,
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._reader = reader
        self._writer = writer
        self._listening = asyncio.create_task(self._hang_up())

    @classmethod
    async def spawn(cls) -> Child:
        ours, theirs = socket.socketpair()
        # The child finds its modules where this process does, and then gives the variable its old value back.
        path = os.pathsep.join(entry for entry in sys.path if entry)
        before = [os.environ[PYTHONPATH]] if PYTHONPATH in os.environ else []
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast.engine.child",
                str(theirs.fileno()),
                *before,
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, PYTHONPATH: path},
                start_new_session=True,
            )
            pipe = ours.dup()
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, reader, writer, pipe)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self, assignment: Assignment, progress: Callable[[float, str | None], None]) -> Said:
        """The child's last word on the job. Raises EOFError if the child ended without one."""
        self._writer.write(frame(assignment))
        await self._writer.drain()
        while True:
            word = await self._hear()
            if isinstance(word, Progressed):
                progress(word.fraction, word.note)
            elif isinstance(word, Logged):
                write(word, self.pid)
            else:
                return word

    async def _hear(self) -> Said:
        (length,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        return said.decode(await self._reader.readexactly(length))

    async def _hang_up(self) -> None:
        """Listens no longer than the child lives: what it has started may hold the other end of the pipe.

        What the child has said before is still heard.
        """
        await self._process.wait()
        # By a descriptor of our own: what an event loop lends out as its socket may not be one.
        with suppress(OSError):
            self._pipe.shutdown(socket.SHUT_RD)
        self._pipe.close()

    async def end(self, patience: float) -> int:
        """TERM, then KILL, the latter also for what the child itself has started; the exit code."""
        # Not by the process object: it would look whether the child has ended, and so take away the exit code
        # from whoever waits for it.
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            if not await self._ends_within(patience):
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
        self._writer.close()
        return await self._process.wait()

    async def bury(self, patience: float) -> int:
        """The exit code of a child that has hung up; it is ended if it lives on."""
        await self._ends_within(patience)
        return await self.end(patience)

    async def _ends_within(self, patience: float) -> bool:
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

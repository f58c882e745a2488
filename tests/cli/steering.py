"""Commands on a named memory store, which one process shares, and an application that works on it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import uuid4

from click.testing import CliRunner, Result

from holdfast import Holdfast, Never
from holdfast.cli.main import cli

T = TypeVar("T")


class Shop:
    """An application with one task, and the commands that an operator gives to its store."""

    def __init__(self) -> None:
        self.url = f"memory://{uuid4()}"
        self.app = app = Holdfast(self.url)

        @app.task(retry=Never())
        async def work(fail: bool = False) -> None:
            if fail:
                raise ValueError("out of paper")

        self.work = work

    def do(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the application does while it is open."""

        async def run() -> T:
            async with self.app:
                return await act()

        return asyncio.run(run())

    def drain(self) -> None:
        asyncio.run(self.app.worker().run(until_idle=True))

    def invoke(self, *arguments: str) -> Result:
        result = CliRunner().invoke(cli, [*arguments, "--store", self.url])
        assert "\x1b" not in result.output
        return result

    def done(self, *arguments: str) -> str:
        result = self.invoke(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def asked(self, *arguments: str) -> Any:
        """The JSON document that a command prints."""
        return json.loads(self.done(*arguments, "--json"))

    def refused(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the one line of a command that could not be done."""
        result = self.invoke(*arguments)
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        return result.exit_code, result.stderr.removeprefix("holdfast: ").rstrip()

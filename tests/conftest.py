"""What holds for every test: async tests run, servers are there, Hypothesis ignores a busy machine."""

import asyncio
import inspect
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.plugin"]

# A deadline would measure the machine; a pytest timeout already ends what hangs.
# How long it takes to draw examples says more about the machine than about the strategies.
settings.register_profile(
    "holdfast", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("holdfast")

# A shell starts what runs in its background with Ctrl-C ignored; programs of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run an `async def` test on an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says whether there was a SQL Server: what did not run shall not seem to have."""
    named = os.environ.get("HOLDFAST_TEST_SQLSERVER")
    terminalreporter.write_line(
        "SQL Server: run on the server named by HOLDFAST_TEST_SQLSERVER"
        if named
        else "SQL Server: not run (HOLDFAST_TEST_SQLSERVER names none)"
    )

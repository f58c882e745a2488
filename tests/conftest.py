"""What holds for every test: async tests run, servers are there, Hypothesis ignores a busy machine."""

import asyncio
import inspect
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.servers.plugin"]

_SQLSERVER = "HOLDFAST_TEST_SQLSERVER"

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
    """Says what was run on a SQL Server: what did not run shall not seem to have."""
    counts = [
        f"{found} {outcome}"
        for outcome in ("passed", "failed", "error")
        if (found := sum(map(_is_on_sqlserver, terminalreporter.stats.get(outcome, ()))))
    ]
    if counts:
        told = f"{', '.join(counts)} on the server that {_SQLSERVER} names"
    elif os.environ.get(_SQLSERVER):
        told = "not run (none of its tests was chosen)"
    else:
        told = f"not run ({_SQLSERVER} names none)"
    terminalreporter.write_line(f"SQL Server: {told}")


def _is_on_sqlserver(report: pytest.TestReport) -> bool:
    return "conformance/test_mssql.py" in report.nodeid or report.nodeid.endswith("[sqlserver]")

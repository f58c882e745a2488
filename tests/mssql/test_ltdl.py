"""mssql-python finds its library on a machine that lacks it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_HIDE = 'for each in /lib/*/libltdl.so.7.*; do [ ! -e "$each" ] || mount --bind /dev/null "$each"; done; "$@"'
_HIDDEN = ["unshare", "--map-root-user", "--mount", "sh", "-c", _HIDE, "sh", sys.executable, "-c"]
_CONNECT = """
import socket, sys
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.mssql_python_driver import MssqlPython
from tests.servers.ltdl import provide_ltdl
if "provided" in sys.argv:
    provide_ltdl()
with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
    try:
        MssqlPython().connect(parse(f"mssql://u:p@127.0.0.1:{port}/db?timeout=1"), None, 1)
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.process
def test_the_library_is_provided_where_the_system_has_none() -> None:
    without = _run()
    if "unshare" in without:
        pytest.skip("the library of the system cannot be hidden here")
    assert "ConfigurationError" in without
    assert "apt-get install libltdl7" in without
    assert "mssql+pytds://" in without
    provided = _run("provided")
    assert provided.startswith("Fault")
    assert "imeout" in provided


def _run(*args: str) -> str:
    if not shutil.which("unshare"):
        return "there is no unshare"
    # Another test of this run may have provided it for all programs that start from here.
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    ended = subprocess.run(
        [*_HIDDEN, _CONNECT, *args],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return ended.stdout + ended.stderr

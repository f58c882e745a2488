"""`holdfast web` as a process of its own: where it listens, what it says, how it ends."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.process

PROGRAM = [sys.executable, "-m", "holdfast"]
APP = """
from holdfast import Holdfast
app = Holdfast("sqlite:///jobs.db")

@app.task
async def add(a: int, b: int) -> int:
    return a + b
"""


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "PYTHONWARNINGS": "error"}


@contextmanager
def web(folder: Path, *options: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """The running command, and the line that it printed."""
    (folder / "shop.py").write_text(APP)
    command = [*PROGRAM, "web", "shop:app", "--port", "0", *options]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        killer = threading.Timer(40, process.kill)
        killer.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line, process.stderr and process.stderr.read()
            yield process, line
        finally:
            process.kill()
            killer.cancel()


def listening(pid: int) -> list[str]:
    """The addresses that the process listens on, as the kernel tells them."""
    inodes = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", str(each.readlink()))
        inodes |= {found[1]} if found else set()
    addresses = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] in inodes and words[3] in ("0A", "07"):
                addresses.append(words[1].partition(":")[0])
    return addresses


def test_by_default_it_listens_here_only_and_prints_a_link_that_signs_in(tmp_path: Path) -> None:
    with web(tmp_path) as (process, line):
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)#token=(hf_[\w-]{43})", line)
        assert found is not None, line
        assert listening(process.pid) == ["0100007F"]
        url, token = found.groups()
        assert httpx.get(f"{url}api/v1/stats").status_code == 401
        with httpx.Client(base_url=url) as browser:
            assert browser.post("api/v1/session", json={"token": token}).json()["role"] == "admin"
            assert browser.get("api/v1/stats").status_code == 200
            with browser.stream("GET", "api/v1/stream") as stream:
                lines = stream.iter_lines()
                assert next(lines).startswith("retry")
                assert next(line for line in lines if line.startswith("event")) == "event: overview"
                process.send_signal(signal.SIGTERM)
                assert list(lines), "what was begun is told to its end"
        assert process.wait(20) == 0
        assert process.stderr is not None
        written = process.stderr.read()
        assert token not in written
        assert "action=sign_in" in written
        assert "Traceback" not in written


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_others_are_not_let_in_without_credentials(tmp_path: Path, host: str) -> None:
    (tmp_path / "shop.py").write_text(APP)
    command = [*PROGRAM, "web", "shop:app", "--port", "0", "--host", host]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=40
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert "--host" in line
    assert "--token" in line


def test_tokens_come_from_a_file_and_are_made_by_a_command(tmp_path: Path) -> None:
    made = subprocess.run(
        [*PROGRAM, "token", "grafana", "--role", "read"],
        capture_output=True,
        text=True,
        check=True,
        timeout=40,
    )
    secret, line = made.stdout.splitlines()
    (tmp_path / "tokens").write_text(f"# who may look\n{line}\n")
    options = ("--host", "0.0.0.0", "--tokens-file", str(tmp_path / "tokens"), "--token", "tiny")
    with web(tmp_path, *options) as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        session = httpx.get(f"{url}api/v1/session", headers={"Authorization": f"Bearer {secret}"}).json()
        assert (session["user"], session["role"], session["store"]) == ("grafana", "read", "sqlite")
        admin = httpx.get(f"{url}api/v1/session", headers={"Authorization": "Bearer tiny"}).json()
        assert admin["role"] == "admin"
        assert httpx.get(f"{url}api/v1/stats", headers={"Host": "evil.example"}).status_code == 421
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        warned = process.stderr.read()
        assert "can be guessed" in warned
        assert "in the clear" in warned
        assert secret not in warned


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tokens-file", "missing"], "cannot be read"),
        (["--tokens-file", "empty"], "no token"),
        (["--token", " "], "--token"),
        (["--tls-cert", "x"], "go together"),
        (["--host", "203.0.113.1", "--token", "a-token-that-is-long"], "cannot listen"),
        (["--store", "sqlite:///nowhere.db"], "no file"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "empty").write_text("# nobody\n")
    ended = subprocess.run(
        [*PROGRAM, "web", "--port", "0", "--store", "memory://", *options],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=40,
    )
    assert ended.returncode in (1, 2)
    assert said in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VERBS = [
    "help",
    "setup",
    "check",
    "fix",
    "test",
    "campaigns",
    "demo",
    "bench",
    "proofs",
    "simulate",
    "torture",
    "durability",
    "fuzz",
    "audit",
    "clean",
]


def run_make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    make = shutil.which("make") or "make"
    environment = {"PATH": path} if path else None
    return subprocess.run(
        [make, "--no-print-directory", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_alone_lists_every_verb_with_its_meaning() -> None:
    shown = run_make(ROOT)
    assert re.findall(r"^  make (\w+) +\S", shown.stdout, re.MULTILINE) == VERBS


@pytest.mark.parametrize("verb", ["setup", "demo"])
def test_without_a_python_that_is_new_enough_one_line_says_so(tmp_path: Path, verb: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ["sh", "make"]:
        (programs / name).symlink_to(shutil.which(name) or name)
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in ["Makefile", "pyproject.toml"]:
        shutil.copy(ROOT / name, tmp_path)
    ended = run_make(tmp_path, verb, path=str(programs))
    complaints = [line for line in ended.stderr.splitlines() if not line.startswith("make")]
    assert ended.returncode != 0
    assert len(complaints) == 1
    assert "Python 3.11 or newer" in complaints[0]
    assert not (tmp_path / ".venv").exists()

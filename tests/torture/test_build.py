"""A report names the commit that it is about."""

import shutil
import subprocess
import sys
from pathlib import Path

from holdfast.torture import build

GIT = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")


def test_the_commit_is_that_of_the_clone_and_nothing_elsewhere(tmp_path: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    copy = tmp_path / "build.py"
    shutil.copy(build.__file__, copy)

    def said(*words: str) -> str:
        return subprocess.run(
            [git, "-C", tmp_path, *words], capture_output=True, text=True, check=True
        ).stdout

    def told() -> str:
        program = [sys.executable, "-c", "import build; print(build.commit())"]
        return subprocess.run(
            program, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert told() == ""
    said("init", "--quiet")
    assert told() == "", "in somebody's clone, and no part of it"
    said("add", "build.py")
    said(*GIT, "commit", "--quiet", "--message", "one")
    commit = told()
    assert said("rev-parse", "HEAD").startswith(commit)
    assert len(commit) >= 10
    copy.write_text(copy.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert told() == f"{commit}-dirty"

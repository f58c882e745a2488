"""Runs one page in a temporary folder, the way a reader would who copies each block in turn."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.docs.blocks import blocks_of

ROOT = Path(__file__).resolve().parents[2]
PAGE_SECONDS = 120.0
SERVER = "postgresql://app@localhost/shop"
"""The database that the pages name."""


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that are promises: README, CONTRIBUTING and everything under docs."""
    top = [root / name for name in ("README.md", "CONTRIBUTING.md")]
    return [page for page in top if page.exists()] + sorted((root / "docs").rglob("*.md"))


def run_page(
    page: Path, folder: Path, root: Path = ROOT, seconds: float = PAGE_SECONDS, server: str = SERVER
) -> subprocess.CompletedProcess[str]:
    """Run every block of the page in that folder; the status tells, the error output names the block.

    `server` is the database that stands in for the one that the pages name.
    """
    blocks = [asdict(block) for block in blocks_of(page, root)]
    for block in blocks:
        block["text"] = block["text"].replace(SERVER, server)
    plan = {"root": str(root), "seconds": seconds, "blocks": blocks}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-P", "-m", "tests.docs.run_page"],
        cwd=folder,
        env=environment,
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        timeout=seconds + 20,
        check=False,
    )

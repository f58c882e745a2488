"""A release that a store has become too new for is refused at its start, in one line that says what to do."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.harness import Site
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.redis_site import RedisSite
from tests.durability.acknowledged import SETTING
from tests.upgrade.builds import make_newer

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

WORKER = ("worker", "tests.durability.program:app", "--drain")
MIGRATE = ("migrate",)
LIMIT = ("limits", "set", "--queue", "mail", "--concurrency", "3")
"""There is nothing to migrate on Redis: the layout is another one when something needs it."""


async def refuse_older(site: Site, upgrade: Sequence[str], *others: Sequence[str]) -> None:
    """The newer one makes the store its own by a command; the older one says that it cannot go on there."""
    newer = make_newer(site.folder, breaks=True)
    environ = {SETTING: str(site.folder / "answers")}
    made = site.start("-m", "holdfast", *upgrade, **environ, PYTHONPATH=str(newer))
    assert await made.ends() == 0, made.output
    for command in (WORKER, ("jobs", "list"), *others):
        refused = site.start("-m", "holdfast", *command, **environ)
        assert await refused.ends() == 2, refused.output
        [line] = refused.output.strip().splitlines()
        assert "upgrade Holdfast" in line
    welcome = site.start("-m", "holdfast", *WORKER, **environ, PYTHONPATH=str(newer))
    assert await welcome.ends() == 0, welcome.output


async def test_an_older_release_is_refused_by_a_file(tmp_path: Path) -> None:
    await refuse_older(Site(tmp_path), MIGRATE, MIGRATE)


async def test_an_older_release_is_refused_by_a_database(tmp_path: Path, postgres_database: str) -> None:
    await refuse_older(PostgresSite(tmp_path, postgres_database), MIGRATE, MIGRATE)


async def test_an_older_release_is_refused_by_a_redis_namespace(tmp_path: Path, redis_url: str) -> None:
    await refuse_older(RedisSite(tmp_path, redis_url), LIMIT)

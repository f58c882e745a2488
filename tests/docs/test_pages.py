from pathlib import Path

import pytest

from tests.docs.page import PAGE_SECONDS, ROOT, SERVER, pages, run_page


@pytest.mark.timeout(PAGE_SECONDS + 30)
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_does_what_it_says(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs_server = SERVER in page.read_text(encoding="utf-8")
    server = request.getfixturevalue("postgres_database") if needs_server else SERVER
    ended = run_page(page, tmp_path, server=server)
    assert ended.returncode == 0, ended.stderr

import re
from pathlib import Path

import pytest

from tests.docs.page import ROOT, pages

FENCED = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<words>.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be reached, as code hosts make them."""
    headings = (words.strip().lower() for words in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", words).replace(" ", "-") for words in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_page_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(found), f"{target}: no such heading"

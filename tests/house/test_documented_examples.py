"""Every page of the documentation can be reached: from the list of pages, and in the site's navigation."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md"))


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    assert [page for page in PAGES if page != "index.md" and f"]({page})" not in index] == []


def test_the_navigation_has_every_page() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert [page for page in PAGES if f": {page}\n" not in navigation] == []

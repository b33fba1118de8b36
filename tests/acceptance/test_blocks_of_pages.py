"""Pages with a few commands or statements, and the test that each page's blocks are run by some test."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgsluice import WorkQueue
from support.pages import blocks_of, pages, run_blocks

TESTS = Path(__file__).parents[1]
GUIDES = {page.stem: page for page in pages("guides")}
SHORT = ("logical-replication", "managed-servers", "upgrade")
# Pages whose blocks are run by no test, and the reason.
NOT_RUN = {"managed-spark": "they need an account of Databricks, EMR or Dataproc"}
READERS = ("support.pages", "BLOCK", "write_example")


@pytest.mark.slow
@pytest.mark.parametrize("guide", SHORT)
def test_blocks_of_a_guide_run(guide, database_18, tmp_path):
    with database_18.connect() as connection:
        WorkQueue(connection).create("orders")

    run_blocks(blocks_of(GUIDES[guide]), tmp_path, {"PGSLUICE_DSN": database_18.url})


@pytest.mark.parametrize("folder", ["", "guides"])
def test_each_page_with_blocks_is_read_by_a_test(folder):
    """Pages of other folders are run by the tests of their folder."""
    texts = [
        path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__)
    ]
    of_pages = [text for text in texts if any(reader in text for reader in READERS)]
    with_blocks = {
        page.stem
        for page in pages(folder)
        if any(block.kind in {"bash", "python", "sql"} for block in blocks_of(page))
    }
    named = {
        stem
        for stem in with_blocks
        if any(f"{stem}.md" in text for text in texts)
        or any(f'"{stem}"' in text for text in of_pages)
    }

    assert with_blocks - named - {*SHORT} - NOT_RUN.keys() == set()
    assert NOT_RUN.keys() <= GUIDES.keys() - named

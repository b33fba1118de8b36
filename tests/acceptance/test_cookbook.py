"""The cookbook: each page runs in a database of its own and prints what it shows."""

from __future__ import annotations

import pytest

from support.pages import blocks_of, pages, run_blocks

PAGES = [pytest.param(page, id=page.stem) for page in pages("cookbook")]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_print_their_output(page, database_18, tmp_path):
    compared = run_blocks(blocks_of(page), tmp_path, {"PGSLUICE_DSN": database_18.url})

    assert compared, "the page shows no output"

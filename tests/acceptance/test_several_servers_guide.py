"""The page several-servers.md: its blocks run in order, with three databases."""

from __future__ import annotations

import pytest

from support.pages import blocks_of, pages, run_blocks


@pytest.mark.slow
def test_blocks_of_the_guide_on_several_servers_run(make_database_18, tmp_path):
    (guide,) = [page for page in pages("guides") if page.name == "several-servers.md"]
    variables = {f"SHOP_{name}": make_database_18().url for name in "ABC"}

    assert run_blocks(blocks_of(guide), tmp_path, variables) == 5

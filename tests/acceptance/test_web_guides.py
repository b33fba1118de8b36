"""The guides of FastAPI and Flask: their programs, commands and tests run, with the output that they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.object_store import free_port
from support.pages import blocks_in, run_blocks

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["fastapi", "flask"])
def test_program_commands_and_tests_of_a_guide_run(guide, database_18, tmp_path):
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    start = "pgsluice embedded start             # not with your own server\n"
    assert text.count(start) == 1  # tests/acceptance/test_tutorial.py starts it
    text = text.replace(start, "")
    for port in set(re.findall(r"127\.0\.0\.1:(\d+)", text)):
        assert f"--port {port} " in text
        text = text.replace(port, str(free_port()))

    assert run_blocks(blocks_in(text), tmp_path, {"PGSLUICE_DSN": database_18.url})

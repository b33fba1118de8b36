"""The tutorial, block by block in an empty folder, with the output that it shows."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

from pgsluice.embedded import EmbeddedServer
from support.object_store import free_port
from support.pages import blocks_in, run_blocks

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PORTS = ("8081", "8899")


@pytest.fixture
def folder():
    """A folder that the server's user may enter, with a short path; what runs in it is stopped."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "work").mkdir()
        yield folder
        for file in folder.glob("work/*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        for data in folder.glob("home/*/PG_VERSION"):
            EmbeddedServer(data.parent).stop("immediate")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_block_of_the_tutorial_runs_and_prints_what_it_shows(folder):
    text = PAGE.read_text(encoding="utf-8")
    for port in PORTS:
        text = text.replace(port, str(free_port()))
    blocks = blocks_in(text)
    variables = {"PGSLUICE_HOME": str(folder / "home")}

    assert run_blocks(blocks, folder / "work", variables) > 5
    [unit] = [block for kind, block in blocks if kind == "ini"]
    [command] = re.findall(r"^ExecStart=\S+/(pgsluice .*)$", unit, re.MULTILINE)
    assert any(command in block for kind, block in blocks if kind == "bash")

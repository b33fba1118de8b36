"""The tutorial, block by block in an empty folder, with the output that it shows."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pgsluice.embedded import EmbeddedServer
from support.object_store import free_port

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"```(bash|python|text|ini)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
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


@pytest.fixture
def environ(folder):
    """An environment without a server, in which `pip` installs nothing and pytest has our plugin."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "pip").write_text("#!/bin/sh\nexit 0\n")
    (programs / "pgsluice").write_text(f'#!/bin/sh\nexec {sys.executable} -m pgsluice "$@"\n')
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    plugins = "-p pgsluice_pytest -p no:cacheprovider -p no:asyncio"
    (programs / "pytest").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest {plugins} "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PG", "PYTEST")) and name != "DATABASE_URL"
    }
    return kept | {
        "PGSLUICE_HOME": str(folder / "home"),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_block_of_the_tutorial_runs_and_prints_what_it_shows(folder, environ):
    text = PAGE.read_text(encoding="utf-8")
    for port in PORTS:
        text = text.replace(port, str(free_port()))
    blocks = BLOCK.findall(text)
    work = folder / "work"
    ran = 0
    for (kind, block), (next_kind, shown) in itertools.pairwise([*blocks, ("", "")]):
        if kind == "python" and (name := FILE.match(block)):
            (work / name[1]).write_text(block, encoding="utf-8")
            continue
        if kind not in {"bash", "python"}:
            continue
        command = ["bash", "-e", "-c", block] if kind == "bash" else [sys.executable, "-c", block]
        done = subprocess.run(
            command, cwd=work, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert done.stdout == (shown if next_kind == "text" else ""), block
        ran += 1

    assert ran > 10
    [unit] = [block for kind, block in blocks if kind == "ini"]
    [command] = re.findall(r"^ExecStart=\S+/(pgsluice .*)$", unit, re.MULTILINE)
    assert any(command in block for kind, block in blocks if kind == "bash")

"""Pages of documentation whose blocks run in their order, with the output that they show.

- `python` whose first line is a comment with a file name, such as `# shop.py`, is written to that file.
- Other `python` runs as a program, and `bash` as a script that stops at the first failing command.
- `sql` runs as in psql, on the server of `PGSLUICE_DSN`.
- `text` is the exact standard output of the program or script before it, or the last result of SQL; without it a program prints
  nothing. Results of SQL and the output of some commands need not be shown.
- The last line of a script may have the comment `# exits with 1`.
- `ini` is a file that the test of the page reads.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from support.processes import without_server
from support.psql import run_script

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")
_STATUS = re.compile(r"# exits with (\d+)\n\Z")
_QUIET = re.compile(r"^(pytest|pgsluice schema|pgsluice queue send)", re.MULTILINE)
# In pytest only the plugin that a reader has.
_PYTEST = "pytest -p pgsluice_pytest -p no:cacheprovider -p no:asyncio"
_MODULES = {"pgsluice": "pgsluice", "pytest": _PYTEST, "uvicorn": "uvicorn", "flask": "flask"}


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    text: str


def pages(folder: str) -> Iterator[Path]:
    """Yield the pages of a folder of docs, by name."""
    yield from sorted((Path(__file__).parents[2] / "docs" / folder).glob("*.md"))


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return blocks_in(page.read_text(encoding="utf-8"))


def blocks_in(text: str) -> list[Block]:
    """Return the fenced blocks of a page's text, in order."""
    return [Block(*found) for found in _BLOCK.findall(text)]


def run_blocks(blocks: list[Block], folder: Path, variables: Mapping[str, str]) -> int:
    """Run the blocks of a page in a folder and compare what they print; return the number of outputs.

    What a block starts in the background runs until the end of the page.

    Args:
        blocks: The blocks of one page.
        folder: An empty folder, for the files of the page.
        variables: Environment variables, such as `PGSLUICE_DSN`.
    """
    environ = make_environment(folder) | variables
    groups: list[int] = []  # of processes
    compared = 0
    try:
        for (kind, text), following in itertools.pairwise([*blocks, Block("", "")]):
            if kind in {"text", "ini"} or _is_file(kind, text, folder):
                continue
            if kind == "sql":
                printed = run_script(environ["PGSLUICE_DSN"], text)
            else:
                printed = run_block(kind, text, folder, environ, groups)
            if following.kind == "text" or not (kind == "sql" or _QUIET.search(text)):
                assert printed == (following.text if following.kind == "text" else ""), text
            compared += following.kind == "text"
    finally:
        for group in groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
    return compared


def make_environment(folder: Path) -> dict[str, str]:
    """Return an environment without a server, with the programs of the tests, in which `pip` installs nothing."""
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    texts = {"pip": "exit 0", "python": f'exec {sys.executable} "$@"'}
    texts |= {name: f'exec {sys.executable} -m {call} "$@"' for name, call in _MODULES.items()}
    for name, text in texts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    kept = {name: text for name, text in without_server().items() if not name.startswith("PYTEST")}
    return kept | {"PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _is_file(kind: str, text: str, folder: Path) -> bool:
    """Write a block to its file if it names one."""
    found = _FILE.match(text) if kind == "python" else None
    if found:
        (folder / found[1]).write_text(text, encoding="utf-8")
    return found is not None


def run_block(
    kind: str, text: str, folder: Path, environ: Mapping[str, str], groups: list[int]
) -> str:
    """Run a program or script; return what it prints. Its group of processes is added to `groups`."""
    commands = {"python": [sys.executable, "-c", text], "bash": ["bash", "-e", "-c", text]}
    assert kind in commands, f"a block of kind {kind!r} is not run by a test"
    process = subprocess.Popen(
        commands[kind], cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    groups.append(process.pid)
    printed, errors = process.communicate(timeout=120)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    assert process.returncode == status, f"{text}\n{printed}\n{errors}"
    return printed

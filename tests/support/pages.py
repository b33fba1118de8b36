"""Pages of documentation whose blocks run in their order, with the output that they show.

- `python` whose first line is a comment with a file name, such as `# shop.py`, is written to that file.
- Other `python` runs as a program, and `bash` as a script that stops at the first failing command.
- `text` is the exact standard output of the program or script before it; without it there is none.
- The last line of a script may have the comment `# exits with 1`.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")
_STATUS = re.compile(r"# exits with (\d+)\n\Z")


class Block(NamedTuple):
    """A fenced block of a page."""

    kind: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def run_blocks(blocks: list[Block], folder: Path, variables: Mapping[str, str]) -> int:
    """Run the blocks of a page in a folder and compare what they print; return the number of outputs.

    Args:
        blocks: The blocks of one page.
        folder: An empty folder, for the files of the page.
        variables: Environment variables, such as `PGSLUICE_DSN`.
    """
    environ = _environ(folder) | variables
    compared = 0
    for (kind, text), following in itertools.pairwise([*blocks, Block("", "")]):
        if kind == "text" or _is_file(kind, text, folder):
            continue
        shown = following.text if following.kind == "text" else ""
        status = int(found[1]) if (found := _STATUS.search(text)) else 0
        done = subprocess.run(
            _command(kind, text),
            cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == status, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout == shown, f"{text}\n{done.stderr}"
        compared += following.kind == "text"
    return compared


def _is_file(kind: str, text: str, folder: Path) -> bool:
    """Write a block to its file if it names one."""
    found = _FILE.match(text) if kind == "python" else None
    if found:
        (folder / found[1]).write_text(text, encoding="utf-8")
    return found is not None


def _command(kind: str, text: str) -> list[str]:
    commands = {"python": [sys.executable, "-c", text], "bash": ["bash", "-e", "-c", text]}
    assert kind in commands, f"a block of kind {kind!r} is not run by a test"
    return commands[kind]


def _environ(folder: Path) -> dict[str, str]:
    """Return the environment without a server, in which `python` and `pgsluice` are those of the tests."""
    programs = folder / ".bin"
    programs.mkdir()
    for name, arguments in (("python", ""), ("pgsluice", " -m pgsluice")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{arguments} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") and name != "DATABASE_URL"
    }
    return kept | {"PATH": f"{programs}:{os.environ['PATH']}"}


def pages(folder: str) -> Iterator[Path]:
    """Yield the pages of a folder of docs, by name."""
    yield from sorted((Path(__file__).parents[2] / "docs" / folder).glob("*.md"))

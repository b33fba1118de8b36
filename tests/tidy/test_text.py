"""Words, sizes and the shape of the tree."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pgsluice"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
ROOT_ENTRIES_MAX = 15
KINDS = (".py", ".sql", ".md", ".toml", ".html", ".yml", ".yaml", ".properties", ".sh", "")


def texts(*places):
    """The text files of the project in these places."""
    return [found for place in places for found in _texts(place)]


@cache
def _texts(place):
    paths = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*"))
    return [
        (path, path.read_text(encoding="utf-8"))
        for path in paths
        if path.suffix in KINDS and "__pycache__" not in path.parts and path.is_file()
    ]


def lines_with(pattern, *places):
    """Return matches of a pattern as file:line: text; these tests themselves are excluded."""
    # Most files have no match, and are searched faster as a whole.
    anywhere = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path, text in texts(*places)
        if Path(__file__).parent not in path.parents and anywhere.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]


EVERYWHERE = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "STYLE.md", "Makefile"),
    *("pyproject.toml", "src", "docs", "tests", "tools", "bench", ".github", ".ci"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"exactly.once[ -]deliver|deliver\w*\s+exactly.once", id="a false promise"),
        pytest.param(r"(?<![\w.])/work/(main|shared)\b|/tmp/w\b", id="a path of one machine"),
    ],
)
def test_words_that_have_no_place_here_are_nowhere(pattern):
    # STYLE.md may name the words that it forbids.
    found = lines_with(pattern, *(place for place in EVERYWHERE if place != "STYLE.md"))

    assert not found, "\n".join(found)


def test_no_test_replaces_a_clock_for_every_thread_of_its_process():
    """A thread that another test left sleeps by it too: replace the module's name `time` instead."""
    found = lines_with(r'\btime(\.|, ")(monotonic|perf_counter|time|sleep)"', "tests")

    assert not found, "\n".join(found)


def test_nothing_in_the_source_waits_to_be_done():
    found = lines_with(r"\b(TODO|FIXME|XXX|HACK)\b", "src")

    assert not found, "\n".join(found)


def test_no_file_of_the_source_that_is_written_by_hand_is_long():
    long = [
        f"{path.relative_to(ROOT)} has {lines} lines"
        for path, text in texts("src")
        if path.suffix == ".py" and not text.startswith("# Generated")
        if (lines := text.count("\n")) >= FILE_LINES_MAX
    ]

    assert not long, "\n".join(long)


def test_no_function_of_the_source_is_long():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {lines} lines"
        for path, text in texts("src", "tools")
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := node.end_lineno - _first_line_of_code(node) + 1) >= FUNCTION_LINES_MAX
    ]

    assert not long, "\n".join(long)


def _first_line_of_code(node):
    # A docstring that explains is no reason to cut a function.
    if ast.get_docstring(node) is None or len(node.body) == 1:
        return node.lineno
    return node.body[1].lineno


def test_the_root_is_small():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("this is no git checkout: the root may hold what others put there")
    # As `ls` shows them: what begins with a dot belongs to the machines.
    entries = {
        name for line in listed.stdout.splitlines() if (name := line.split("/")[0])[0] != "."
    }

    assert len(entries) <= ROOT_ENTRIES_MAX, sorted(entries)

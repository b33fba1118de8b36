"""`make test` runs tests of each kind: those marked `slow` or `long` only add to what it shows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FOLDERS = sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")})
LATER = re.compile(r"pytest\.mark\.(slow|long)")


def run_by_make_test(path: Path) -> list[str]:
    """Return the tests of a file that are marked neither `slow` nor `long`."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            if LATER.search(ast.unparse(node.value)):
                return []
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            marks = [ast.unparse(decorator) for decorator in node.decorator_list]
            if node.name.startswith("test_") and not any(map(LATER.fullmatch, marks)):
                names.append(node.name)
    return names


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_each_folder_has_tests_that_make_test_runs(folder: Path):
    assert any(map(run_by_make_test, (TESTS / folder).glob("test_*.py")))


def test_marked_tests_and_files_are_distinguished(tmp_path: Path):
    path = tmp_path / "test_a.py"
    text = "@pytest.mark.slow\ndef test_a(): ...\n@pytest.mark.spark\nasync def test_b(): ...\n"
    path.write_text(text)
    assert run_by_make_test(path) == ["test_b"]

    path.write_text(f"{text}pytestmark = [pytest.mark.long, pytest.mark.timeout(60)]\n")
    assert run_by_make_test(path) == []

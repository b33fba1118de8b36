"""The table "Where is …?" of ARCHITECTURE.md leads to what it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pgsluice"
ROW = re.compile(r"^\| ([^|]+\?) \| `([^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
ANSWERS_MIN = 25


def answers() -> list[tuple[str, str, str]]:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    section = re.search(r"^## Where is …\?$.*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    rows = [line for line in section[0].splitlines() if line.startswith("| ")]
    found = ROW.findall(section[0])
    assert len(found) == len(rows) - 1  # the head
    return found


def defines(file: Path, name: str) -> bool:
    """True if a file has a definition of this name."""
    if file.suffix == ".py":
        found = rf"^ *(async def|def|class) {re.escape(name)}\b"
    elif "." in name:
        found = rf"^create or replace function {re.escape(name)}\("
    else:
        found = rf"\b{re.escape(name)}\b"
    return re.search(found, file.read_text(), re.MULTILINE) is not None


def test_the_page_answers_enough_questions():
    questions = [question for question, _, _ in answers()]

    assert len(questions) == len(set(questions)) >= ANSWERS_MIN


@pytest.mark.parametrize(("question", "file", "name"), answers())
def test_the_file_defines_what_the_page_names(question: str, file: str, name: str):
    assert defines(PACKAGE / file, name), f"{question} {file} does not define {name}"


@pytest.mark.parametrize(
    ("file", "name"), [("lake/stats.py", "bins"), ("sql/pgmq/functions/send.sql", "pgmq.sen")]
)
def test_a_name_that_a_file_does_not_define_is_found(file: str, name: str):
    assert not defines(PACKAGE / file, name)

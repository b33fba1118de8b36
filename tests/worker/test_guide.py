"""Tests of each sentence of the guide on workers, as listed in tests/fixtures/worker_guide.txt.

The file has the sections and sentences of the guide in order. Below each sentence it lists its
tests, or the reason why a limit cannot be tested. Update the tests with the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/workers.md"
TESTS = ROOT / "tests/fixtures/worker_guide.txt"


def sentences(section: str) -> Iterator[str]:
    """Return the sentences of paragraphs and lists, and the rows of tables without their heads."""
    section = re.sub(r"```.*?```", "", section, flags=re.DOTALL).replace("**Limits.**", "")
    for block in re.split(r"\n\s*\n|\n(?=- )", section):
        if block.strip().startswith("|"):
            yield from (row.strip("| ") for row in block.strip().splitlines()[2:])
        elif block.strip():
            text = re.sub(r"\s+", " ", block.strip().removeprefix("- "))
            yield from re.split(r"(?<=[.:;])\s+(?=[A-Z`*])", text)


def named() -> dict[str, dict[str, list[str]]]:
    """Return the tests of each sentence, by section."""
    sections: dict[str, dict[str, list[str]]] = {}
    title = sentence = ""
    for line in TESTS.read_text().splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
            sections[title] = {}
        elif line.startswith("    "):
            sections[title][sentence].append(line.strip())
        else:
            sentence = line
            sections[title][sentence] = []
    return sections


def test_each_sentence_of_the_guide_has_its_tests():
    guide = {
        title: list(sentences(text))
        for title, _, text in (
            part.partition("\n")
            for part in re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)[1:]
        )
    }
    for title, tests_of in named().items():
        assert list(tests_of) == guide[title]


def test_the_tests_of_the_guide_exist():
    names = {name for section in named().values() for tests in section.values() for name in tests}
    assert all(tests for section in named().values() for tests in section.values())
    limits = {name for name in names if name.startswith("limit: ")}
    assert len(limits) <= 5
    for name in names - limits:
        path, _, function = name.partition("::")
        assert re.search(rf"def {function}\b", (ROOT / path).read_text()), name

"""Phrases and names that a reader of the field would neither expect nor search for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidy.test_text import ROOT, lines_with, texts

TITLE_LENGTH_MAX = 60
PROSE = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", ".ci"),
    *("src", "docs", "examples", "bench", "tools", "tests"),
)
PHRASES = (
    r"comes? again",
    r"whoever|somebody|nobody (is|has|asks|hears|else|waits)",
    r"(is|to be) had",
    r"so many|as many as",
    r"what became of",
    r"told to end",
    r"it begins",
    r"mend(s|ed|ing)?",
    r"twins?",
    r"beside others",
    r"of before",
    r"of which",
    r"it fares",
    r"is no (time|answer|number|queue)",
    r"says? (what|which|how|who|so)",
    r"who (wants|asks|waits|looks)",
)
OPENINGS = r"(What|Whether|How|Where|Why|Who|Whose|That)\b"
# Write acknowledgement backlog, expired, dead-letter, retry, reconnecting, reservation.
WORDS = r"mails?|lapses?|lapsed|bury|buried|patient(ly)?|patience|lasting|told|mend(s|ed)?"
WORDS_OF_NAMES = re.compile(rf"(?<![a-z])({WORDS}|twins?|whoever|nobody|somebody)(?![a-z])")
PUBLISHED = {"lapsed_events"}  # a function of ours in SQL, and its call


def _python(*places: str) -> Iterator[tuple[Path, ast.Module]]:
    for path, text in texts(*places):
        if path.suffix == ".py":
            yield path, ast.parse(text)


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase_is_not_used(phrase):
    found = lines_with(rf"(?<![\w.])({phrase})(?![\w.]*\w)", *PROSE)

    assert not found, "\n".join(found)


def test_docstring_begins_with_a_verb_or_a_noun():
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"
        for path, tree in _python("src", "bench", "examples", "tools", "tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
        and re.match(OPENINGS, docstring)
    ]

    assert not found, "\n".join(found)


def test_name_uses_the_glossary():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in _python("src", "bench", "examples", "tools")
        for name in (path.stem, *_names(tree))
        if name not in PUBLISHED and WORDS_OF_NAMES.search(name.lower())
    }
    found |= {
        f"{path.relative_to(ROOT)}"
        for path, _ in texts("src")
        if path.suffix == ".sql" and path.stem not in PUBLISHED
        if WORDS_OF_NAMES.search(path.stem.lower())
    }

    assert not found, "\n".join(sorted(found))


def test_name_of_a_test_states_behaviour_and_condition():
    opening = re.compile(OPENINGS.replace("\\b", "_"), re.IGNORECASE)
    phrase = re.compile(f"(?<![a-z])({'|'.join(PHRASES)})(?![a-z])".replace(" ", "_"))
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, tree in _python("tests")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (name := node.name.removeprefix("test_")) != node.name
        if opening.match(name) or phrase.search(name) or re.search("(^|_)told(_|$)", name)
    ]

    assert not found, "\n".join(found)


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id


def test_title_fits_a_list_of_contents():
    long = [
        f"{path.relative_to(ROOT)}: {title}"
        for path, text in texts("docs/guides", "docs/decisions")
        if path.suffix == ".md"
        if len(title := text.splitlines()[0].removeprefix("# ")) > TITLE_LENGTH_MAX
    ]

    assert not long, "\n".join(long)

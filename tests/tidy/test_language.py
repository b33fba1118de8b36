"""Phrases and names that a reader of the field would neither expect nor search for."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tidy.test_text import ROOT, lines_with, texts

TITLE_LENGTH_MAX = 60
OURS = ("src", "bench", "examples", "tools")
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
# Write existing, requested, expected, reason, text, staged, quarantine, folder, marker, remedy.
PRIVATE = r"said|asked|there|beside|aside|notes|marks|wanted|words|handed|way_out"


class Named(NamedTuple):
    """A module, class, function, parameter or variable of a Python file."""

    path: Path
    kind: type[ast.AST]
    name: str
    line: int
    docstring: str | None


@cache
def _named(place: str) -> list[Named]:
    return [
        named
        for path, text in texts(place)
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(text))
        if (named := _name(path, node))
    ]


def _name(path: Path, node: ast.AST) -> Named | None:
    match node:
        case ast.Module():
            return Named(path, ast.Module, path.stem, 1, ast.get_docstring(node))
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return Named(path, type(node), node.name, node.lineno, ast.get_docstring(node))
        case ast.arg():
            return Named(path, ast.arg, node.arg, node.lineno, None)
        case ast.Name(ctx=ast.Store()):
            return Named(path, ast.Name, node.id, node.lineno, None)
    return None


def test_phrases_are_not_used():
    # One pattern: to search for each phrase alone takes five times as long.
    found = lines_with(rf"(?<![\w.])({'|'.join(PHRASES)})(?![\w.]*\w)", *PROSE)

    assert not found, "\n".join(found)


def test_docstring_begins_with_a_verb_or_a_noun():
    found = [
        f"{named.path.relative_to(ROOT)}:{named.line}: {named.docstring.splitlines()[0]}"
        for place in (*OURS, "tests")
        for named in _named(place)
        if named.docstring and re.match(OPENINGS, named.docstring)
    ]

    assert not found, "\n".join(found)


def test_name_uses_the_glossary():
    found = {
        f"{named.path.relative_to(ROOT)}: {named.name}"
        for place in OURS
        for named in _named(place)
        if WORDS_OF_NAMES.search(named.name.lower())
    }
    found |= {
        f"{path.relative_to(ROOT)}"
        for path, _ in texts("src")
        if path.suffix == ".sql" and WORDS_OF_NAMES.search(path.stem.lower())
    }

    assert not found, "\n".join(sorted(found))


def test_name_in_the_package_has_no_private_word():
    private = re.compile(rf"(?<![a-z])({PRIVATE})(?![a-z])")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts("src/pgsluice")
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(text))
        for name in (path.stem, *_names(node))
        if private.search(name.lower())
    }

    assert not found, "\n".join(sorted(found))


def _names(node: ast.AST) -> list[str]:
    """Return the names that a node holds: of what it defines, uses, imports, passes or catches."""
    fields = ("id", "name", "arg", "attr", "asname", "rest")
    found = [getattr(node, field, None) for field in fields]
    return [name for name in found if isinstance(name, str)]


def test_name_of_a_test_states_behaviour_and_condition():
    opening = re.compile(OPENINGS.replace("\\b", "_"), re.IGNORECASE)
    phrase = re.compile(f"(?<![a-z])({'|'.join(PHRASES)})(?![a-z])".replace(" ", "_"))
    found = [
        f"{named.path.relative_to(ROOT)}: {named.name}"
        for named in _named("tests")
        if named.kind in (ast.FunctionDef, ast.AsyncFunctionDef)
        if (name := named.name.removeprefix("test_")) != named.name
        if opening.match(name) or phrase.search(name) or re.search("(^|_)told(_|$)", name)
    ]

    assert not found, "\n".join(found)


def test_title_fits_a_list_of_contents():
    long = [
        f"{path.relative_to(ROOT)}: {title}"
        for path, text in texts("docs/guides", "docs/decisions")
        if path.suffix == ".md"
        if len(title := text.splitlines()[0].removeprefix("# ")) > TITLE_LENGTH_MAX
    ]

    assert not long, "\n".join(long)

"""Commands and options that a text of the package names, such as the hint of an error, exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pgsluice.cli.main import cli
from tidy.test_docs_name_real_things import unknown_in_command

PACKAGE = Path(__file__).parents[2] / "src" / "pgsluice"
MODULES = sorted(PACKAGE.rglob("*.py"))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND = re.compile(r"\bpgsluice((?: (?:--)?[a-z][a-z-]*)+)")
# A command and not the subject of a sentence: quoted, or after such a word.
QUOTED = re.compile(r"(?:`|\brun: |\bwith:? )$")
PLACEHOLDER = "…"


def texts_in(code: str) -> Iterator[tuple[int, str]]:
    """Return the strings of a module with their lines; values in f-strings are placeholders."""

    def walk(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.JoinedStr):
            parts = [
                str(part.value) if isinstance(part, ast.Constant) else PLACEHOLDER
                for part in node.values
            ]
            yield node.lineno, "".join(parts)
            for part in node.values:
                if not isinstance(part, ast.Constant):
                    yield from walk(part)
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.List) and len(node.elts) > 1:
            # The words of a command, as for shlex.join; an f-string or a variable is a placeholder.
            words = [
                one.value if isinstance(one, ast.Constant) else PLACEHOLDER for one in node.elts
            ]
            if words[0] == "pgsluice":
                yield node.lineno, "`" + " ".join(map(str, words))
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    yield from walk(ast.parse(code))


def every_option(command: click.Command) -> set[str]:
    """Return the options of a command and those below it."""
    found = {
        name
        for parameter in command.get_params(click.Context(command))
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found |= every_option(inner)
    return found


# Options of pip, useradd, Java, pgbench and alembic, which texts name too.
OTHERS = {
    "--upgrade",
    "--force-reinstall",
    "--system",
    "--add-modules",
    "--init-steps",
    "--autogenerate",
    "--sql",
}
OPTIONS = every_option(cli) | {
    "--config",
    *OTHERS,
}  # the option of sections, which replaces the kind


def unknown_in(text: str) -> list[str]:
    """Return the commands and options of a text that the command line does not have."""
    # A text of one word is an argument of a program.
    found = OPTION.findall(text) if " " in text else []
    found = [option for option in found if option not in OPTIONS]
    for match in COMMAND.finditer(text):
        words = match[1].split()
        is_quoted = QUOTED.search(text[: match.start()]) is not None
        unknown = unknown_in_command(words)
        if unknown is not None and (is_quoted or unknown != words[0]):
            found.append(f"pgsluice {' '.join(words)}: {unknown}")
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_text_names_only_commands_and_options_that_exist(module: Path):
    texts = texts_in(module.read_text())
    assert [f"{line}: {unknown}" for line, text in texts for unknown in unknown_in(text)] == []


def test_unknown_option_and_command_are_reported():
    code = """
raise E(f"table {name} is parked; run: pgsluice lake rebiuld {name} --lake {lake}")
hint("use --after-los rebuild, or "
     "pgsluice pipeline run changes --on-chnage rebuild")
fine("pgsluice cannot read it; run pgsluice lake rebuild --lake DIR or --once; `pgsluice status --json`", "--other")
shlex.join(["pgsluice", "log", "snapshto", name])
"""
    found = [unknown for _, text in texts_in(code) for unknown in unknown_in(text)]
    assert found == [
        "pgsluice lake rebiuld: rebiuld",
        "--after-los", "--on-chnage", "pgsluice pipeline run changes --on-chnage rebuild: --on-chnage",
        "pgsluice log snapshto: snapshto",
    ]  # fmt: skip

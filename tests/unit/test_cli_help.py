"""The text of every help page, compared with a fixture, so that a review shows each change."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pgsluice.cli.main import cli

FIXTURE = Path(__file__).parents[1] / "fixtures" / "cli_help.txt"
WIDTH = 100
# Last words of commands that delete, move or change something that is in use.
FEARED = {
    "adopt", "archive", "compact", "delete", "doctor", "drop", "drop-export", "pop", "purge", "rebuild", "redrive",
    "release-stream", "replay", "retry", "run", "set", "stop", "unbind", "uninstall", "unpark", "unregister", "upgrade",
    "vacuum",
}  # fmt: skip
RUNNING = ("worker", "pipeline")
WRITE = "python tests/unit/test_cli_help.py > tests/fixtures/cli_help.txt"


def pages(command: click.Command, context: click.Context) -> Iterator[str]:
    """Return the help of a command and of each command below it."""
    yield f"$ {context.command_path} --help\n{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from pages(below, click.Context(below, parent=context, info_name=name))


def test_help_of_every_command_is_as_reviewed():
    expected = FIXTURE.read_text(encoding="utf-8")

    # In a new process, as click caches the help option of a command's first context.
    found = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout

    changes = difflib.unified_diff(expected.splitlines(), found.splitlines(), lineterm="", n=1)
    assert found == expected, "\n".join(
        [f"help texts changed; if intended, run: {WRITE}", *list(changes)[:60]]
    )


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Return a context of every command that is not a group."""
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            yield from commands(below, click.Context(below, parent=context, info_name=name))


def test_yes_is_accepted_with_one_help_by_every_command_that_a_person_may_fear():
    found = {
        context.command_path.partition(" ")[2]: next(
            (each for each in context.command.params if "--yes" in each.opts), None
        )
        for context in commands(cli, click.Context(cli, info_name="pgsluice"))
    }

    feared = {
        path
        for path in found
        if path.split()[-1] in FEARED
        and (path == "pipeline run replay" or path.split()[0] not in RUNNING)
    }
    assert {path for path in feared if found[path] is None} == set()
    helps = {each.help for each in found.values() if each is not None}
    assert helps == {"Do not ask for confirmation."}
    assert {path.split()[-1] for path in feared} == FEARED


def test_exit_codes_of_the_help_and_of_the_guide_are_the_same():
    guide = Path(__file__).parents[2] / "docs/guides/command-line.md"

    listed = re.findall(r"^  (\d+) +\w", cli.epilog, re.MULTILINE)

    assert listed == ["0", "1", "2", "3", "75", "130"]
    assert re.findall(r"^\| (\d+) \|", guide.read_text(encoding="utf-8"), re.MULTILINE) == listed


@pytest.mark.parametrize(
    ("words", "number", "expected"),
    [("pgsluice que", 1, "queue"), ("pgsluice dead-letters re", 2, "redrive")],
)
def test_shell_completion_completes_commands(words, number, expected):
    environ = {
        "_PGSLUICE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(number),
    }

    done = subprocess.run(
        [sys.executable, "-c", "from pgsluice.cli.main import main; main()"],
        env=os.environ | environ, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.stdout == f"plain,{expected}\n"


if __name__ == "__main__":
    root = click.Context(cli, info_name="pgsluice", terminal_width=WIDTH, **cli.context_settings)
    sys.stdout.write("\n".join(pages(cli, root)))

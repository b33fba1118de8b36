"""Commands that users of other programs type, and the commands that the error names."""

from __future__ import annotations

import click
import pytest

from pgsluice.cli.main import OTHER_NAMES, cli, main


def found(words: list[str]) -> click.Command | None:
    """Return the command of these words, or None; words in capitals are arguments."""
    command: click.Command | None = cli
    for word in words:
        if not word.islower() or "=" in word or ":" in word:
            return command
        if word.startswith("--"):
            names = {
                name for each in command.get_params(click.Context(command)) for name in each.opts
            }
            return command if word in names else None
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(click.Context(command), word)
        if command is None:
            return None
    return command


@pytest.mark.parametrize("words", OTHER_NAMES)
def test_name_of_another_program_is_no_command_and_its_hint_is_one(words):
    assert found(words.split()) is None
    assert found(OTHER_NAMES[words].split()) is not None


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("init", "Use: pgsluice schema install"),
        ("dlq", "Use: pgsluice dead-letters list QUEUE"),
        ("queue stats orders", "Use: pgsluice queue show QUEUE"),
        ("workers list", "Use: pgsluice workers"),
        ("help queue", "Use: pgsluice --help"),
    ],
)
def test_name_of_another_program_is_a_usage_error_with_the_command(words, hint, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words.split())

    assert stopped.value.code == 2
    assert hint in capsys.readouterr().err

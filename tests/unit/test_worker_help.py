"""`pgsluice worker run --help` explains every option: what it does, its unit, its default."""

from __future__ import annotations

import re

import click
import pytest

from pgsluice.cli.maintain import maintain
from pgsluice.cli.worker import check, run

COMMANDS = {"run": run, "check": check, "maintain": maintain}
UNITS = {"_mb": "megabytes"}  # a duration has its unit in its value
# Flags, and options whose help explains their absence.
WITHOUT_DEFAULT = {
    "dsn",
    "shards_path",
    "shard_name",
    "as_json",
    "once",
    "print_cron",
    "supervise",
    "until_empty",
}


def options():
    return [
        pytest.param(command, option, id=f"{name} {option.opts[0]}")
        for name, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option)
    ]


@pytest.mark.parametrize(("command", "option"), options())
def test_every_option_names_its_purpose_unit_and_default(command, option):
    help_text = " ".join(option.get_help_record(click.Context(command))[1].split())

    assert re.match(r"[A-Z].*\w", help_text), help_text
    for ending, unit in UNITS.items():
        if option.name.endswith(ending):
            assert unit in help_text, help_text
    if option.name not in WITHOUT_DEFAULT:
        assert "[default: " in help_text or "default: " in help_text.lower(), help_text


def test_the_help_of_run_names_signals_and_every_exit_code():
    help_text = run.get_help(click.Context(run))

    for word in ("SIGTERM", "SIGINT", "--shutdown-timeout"):
        assert word in help_text
    assert re.findall(r"^ +(\d+) {2,}\w", help_text, re.MULTILINE) == ["0", "1", "2", "3", "75"]

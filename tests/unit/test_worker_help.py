"""`pgsluice worker run --help` explains every option: what it does, its unit, its default."""

from __future__ import annotations

import re

import click
import pytest

from pgsluice.cli.maintain import maintain
from pgsluice.cli.worker import check, run

COMMANDS = {"run": run, "check": check, "maintain": maintain}
UNITS = {"_s": "seconds", "_ms": "milliseconds", "_mb": "megabytes"}
# What has no default, as it is on or off, or is explained with the option itself.
WITHOUT_DEFAULT = {"dsn", "as_json", "once", "print_cron", "supervise", "until_empty"}


def options():
    return [
        pytest.param(command, option, id=f"{name} {option.opts[0]}")
        for name, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option)
    ]


@pytest.mark.parametrize(("command", "option"), options())
def test_every_option_says_what_it_does_in_which_unit_and_what_it_is_by_default(command, option):
    said = " ".join(option.get_help_record(click.Context(command))[1].split())

    assert re.match(r"[A-Z].*\w", said), said
    for ending, unit in UNITS.items():
        if option.name.endswith(ending):
            assert unit in said, said
    if option.name not in WITHOUT_DEFAULT:
        assert "[default: " in said or "default: " in said.lower(), said


def test_the_help_of_run_names_signals_and_every_exit_code():
    said = run.get_help(click.Context(run))

    for word in ("SIGTERM", "SIGINT", "--grace-s"):
        assert word in said
    assert re.findall(r"^ +(\d+) {2,}\w", said, re.MULTILINE) == ["0", "1", "2", "3", "75"]

"""The command `pgsluice`: its groups are imported only when they are called.

Exit codes: 0 done; 1 the command ran and the answer is no (a check failed, a difference was found);
2 the command line cannot be understood; 3 an error, named on standard error with its way out.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from pgsluice.cli.options import refuse_empty
from pgsluice.errors import SluiceError

EXIT_DIFFERENCE = 1
EXIT_ERROR = 3

# Name → (module, attribute, one line of help). The help stands here so that `pgsluice --help` imports nothing.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "status": ("pgsluice.cli.status", "status", "Say where commands connect, and what is there."),
    "schema": (
        "pgsluice.cli.schema",
        "schema",
        "Install, adopt, upgrade, verify, print or remove it.",
    ),
    "queue": ("pgsluice.cli.queue", "queue", "Create, fill, read and watch work queues."),
    "log": ("pgsluice.cli.log", "log", "Create, fill, read and watch event logs."),
    "group": ("pgsluice.cli.group", "group", "Create and watch share groups of event logs."),
    "schedule": (
        "pgsluice.cli.schedule",
        "schedule",
        "Send messages and events again and again.",
    ),
    "worker": ("pgsluice.cli.worker", "worker", "Run the handlers of an app."),
    "maintain": (
        "pgsluice.cli.maintain",
        "maintain",
        "Tick logs, and keep queues and logs in order.",
    ),
    "notify": ("pgsluice.cli.notify", "notify", "Wake the listeners of work queues."),
    "embedded": (
        "pgsluice.cli.embedded",
        "embedded",
        "Run a real PostgreSQL that needs no installation.",
    ),
    "pipeline": (
        "pgsluice.cli.pipeline",
        "pipeline",
        "Carry an event log into the lake with Spark.",
    ),
    "lake": (
        "pgsluice.cli.lake",
        "lake",
        "Compact, vacuum and show tables of the lake.",
    ),
    "demo": ("pgsluice.cli.demo", "demo", "Run the whole system on real work and check every row."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        refuse_empty(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pgsluice", prog_name="pgsluice")
def cli() -> None:
    """Message queues and event logs inside PostgreSQL, and an exact way from them into the lake."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; errors of ours become one line on standard error."""
    options: dict[str, Any] = {"standalone_mode": True, "prog_name": "pgsluice"}
    try:
        cli.main(args=arguments, **options)
    except SluiceError as error:
        click.echo(f"pgsluice: {error}", err=True)
        sys.exit(EXIT_ERROR)

"""Options and arguments of several commands, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class FreeText(click.types.StringParamType):
    """A text that may be empty, such as the data of an event."""


class _NonEmpty(click.ParamType):  # type: ignore[type-arg]  # older releases are not generic
    """A text or path that must not be empty.

    An empty value is nearly always a shell variable that was not set. Taken as absent, it would mean another server,
    every queue or the current folder.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.name = inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not value.strip():
            self.fail("the value is empty; check the variable that it comes from", param, ctx)
        return self._inner.convert(value, param, ctx)


def refuse_empty(command: click.Command) -> None:
    """Let a command and its subcommands refuse empty texts and paths, except for `FreeText`."""
    for param in command.params:
        if type(param.type) is click.types.StringParamType or isinstance(param.type, click.Path):
            param.type = _NonEmpty(param.type)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            refuse_empty(subcommand)


def combined(*options: Decorator) -> Decorator:
    """Make one decorator of several options, listed as the help lists them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


dsn_option = click.option(
    "--dsn",
    metavar="URL",
    help="Where to connect: postgresql://user@host/database. Default: PGSLUICE_DSN, DATABASE_URL, "
    "libpq's PG* variables, then the embedded server; empty is an error.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
json_lines_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="Changes nothing: what is printed is JSON lines anyway.",
)
name_argument = click.argument("queue_name", metavar="QUEUE")
log_argument = click.argument("queue_name", metavar="LOG")
optional_log_argument = click.argument("queue_name", metavar="[LOG]", required=False)
group_argument = click.argument("group_name", metavar="GROUP")

"""Options and arguments of several commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from pgsluice.cli.types import Dsn

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class FreeText(click.types.StringParamType):
    """Text that may be empty, such as the data of an event."""


class _NonEmpty(click.ParamType):  # type: ignore[type-arg]  # older releases are not generic
    """Text or path that must not be empty.

    An empty value usually comes from an unset shell variable. Treated as absent, it would select another server, every
    queue or the current folder.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.name = inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and not value.strip():
            self.fail("the value is empty; check the variable that it comes from", param, ctx)
        return self._inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        return self._inner.shell_complete(ctx, param, incomplete)


def refuse_empty(command: click.Command) -> None:
    """Make a command and its subcommands refuse empty texts and paths, except for `FreeText`.

    Ranges are shown as N: their limits follow the help of the option.
    """
    for param in command.params:
        if isinstance(param.type, click.IntRange | click.FloatRange) and param.metavar is None:
            param.metavar = "N"
        is_text = type(param.type) is click.types.StringParamType
        if is_text or isinstance(param.type, click.Path | Dsn):
            param.type = _NonEmpty(param.type)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            refuse_empty(subcommand)


def combined(*options: Decorator) -> Decorator:
    """Combine options into one decorator, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def confirm(is_confirmed: bool, question: str) -> None:
    """Ask before data is destroyed, unless --yes is given.

    Raises:
        click.UsageError: There is no terminal to ask on.
        click.Abort: The answer is no.
    """
    if is_confirmed:
        return
    if sys.stdin is None or not sys.stdin.isatty():  # None if it is closed
        raise click.UsageError(f"{question} Cannot ask without a terminal; confirm with --yes")
    click.confirm(question, abort=True, err=True)


dsn_option = click.option(
    "--dsn",
    type=Dsn(),
    metavar="URL",
    help="Server and database: postgresql://user@host/database.  [default: PGSLUICE_DSN, DATABASE_URL, libpq's PG* "
    "variables, else the embedded server]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
json_lines_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="No effect: any output is JSON lines already.",
)
_YES: dict[str, Any] = {"is_flag": True, "help": "Do not ask for confirmation."}
yes_option = click.option("--yes", **_YES)
# For commands that act without a question, so that a script need not know which of them ask.
accepted_yes_option = click.option("--yes", expose_value=False, **_YES)
name_argument = click.argument("queue_name", metavar="QUEUE")
optional_name_argument = click.argument("queue_name", metavar="[QUEUE]", required=False)
log_argument = click.argument("log_name", metavar="LOG")
optional_log_argument = click.argument("log_name", metavar="[LOG]", required=False)
group_argument = click.argument("group_name", metavar="GROUP")

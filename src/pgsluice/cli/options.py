"""Options and arguments of several commands."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from pgsluice.cli.types import Dsn
from pgsluice.shards import Shards

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


_PLACE = "pgsluice.shards"


def _keep_place(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a shard or the file of shards for `_dsn`, which is evaluated later."""
    name = str(param.name)
    is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ctx.meta[f"{_PLACE}.{name}"] = (value, is_given)


def _dsn(ctx: click.Context, _param: click.Parameter, dsn: str | None) -> str | None:
    """Return the DSN of `--dsn`, or of the shard."""
    path, is_given = ctx.meta.pop(f"{_PLACE}.shards_path")
    name, _ = ctx.meta.pop(f"{_PLACE}.shard_name")
    if dsn is not None and (name is not None or is_given):
        raise click.UsageError("--dsn and --shards both name databases; give one of them", ctx)
    if dsn is not None or (name is None and path is None):
        return dsn
    if path is None:
        raise click.UsageError(
            "--shard needs the file of shards; give --shards FILE, or set PGSLUICE_SHARDS", ctx
        )
    shards = Shards.load(path)
    if name is not None:
        return shards.dsn(name)
    ctx.meta[f"{_PLACE}.all"] = shards
    return None


def _one_or_all(command: Command, *, may_be_all: bool) -> Command:
    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        shards = click.get_current_context().meta.get(f"{_PLACE}.all")
        if may_be_all:
            return command(*args, shards=shards, **options)
        if shards is not None:
            names = ", ".join(shards.names)
            raise click.UsageError(f"give --shard NAME; {shards.place} has: {names}")
        return command(*args, **options)

    return _place_options(run)


_DSN: dict[str, Any] = {
    "type": Dsn(),
    "metavar": "URL",
    "help": "Server and database: postgresql://user@host/database.  [default: PGSLUICE_DSN, DATABASE_URL, libpq's PG* "
    "variables, else the embedded server]",
}
# Of the option --shards.
SHARDS_FILE: dict[str, Any] = {
    "type": click.Path(dir_okay=False),
    "metavar": "FILE",
    "envvar": "PGSLUICE_SHARDS",
}
# For commands whose --shard has another meaning, and for those that cannot have a shard.
dsn_only_option = click.option("--dsn", **_DSN)
_place_options = combined(
    click.option("--dsn", callback=_dsn, **_DSN),
    click.option(
        "--shards",
        "shards_path",
        **SHARDS_FILE,
        is_eager=True,
        expose_value=False,
        callback=_keep_place,
        help="Instead of --dsn: file that names several databases.  [env: PGSLUICE_SHARDS]",
    ),
    click.option(
        "--shard",
        "shard_name",
        metavar="NAME",
        is_eager=True,
        expose_value=False,
        callback=_keep_place,
        help="The database of --shards.",
    ),
)


def dsn_option(command: Command) -> Command:
    """Add --dsn, --shards and --shard; the command gets the DSN, or None for the default."""
    return _one_or_all(command, may_be_all=False)


def dsn_or_shards_option(command: Command) -> Command:
    """Add the options of `dsn_option`; without --shard the command gets all as `shards`, which is else None."""
    return _one_or_all(command, may_be_all=True)


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

"""The command `pgsluice`: its groups are imported only when they are called.

Everything else is imported where it is used, so that `pgsluice --help` starts without psycopg and Rich.
"""

from __future__ import annotations

import importlib
import io
import logging
import sys
import traceback
from types import TracebackType
from typing import Any

import click

from pgsluice.printable import PrintableFormatter, printable_block

EXIT_DIFFERENCE = 1
EXIT_USAGE = 2
EXIT_ERROR = 3
EXIT_INTERRUPTED = 130  # as in a shell: 128 + SIGINT

# Name → (module, attribute, one line of help). The help is here so that `pgsluice --help` imports nothing.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "status": (
        "pgsluice.cli.status",
        "status",
        "Show the server, the installed schema and problems.",
    ),
    "doctor": (
        "pgsluice.cli.doctor",
        "doctor",
        "Check for known causes of trouble, and name the fix.",
    ),
    "schema": (
        "pgsluice.cli.schema",
        "schema",
        "Install, adopt, upgrade, verify or uninstall the schema.",
    ),
    "queue": ("pgsluice.cli.queue", "queue", "Manage work queues and their messages."),
    "log": ("pgsluice.cli.log", "log", "Manage event logs and their consumers."),
    "group": ("pgsluice.cli.group", "group", "Manage share groups of event logs."),
    "dead-letters": (
        "pgsluice.cli.dead_letters",
        "dead_letters",
        "List, redrive or purge dead letters.",
    ),
    "schedule": (
        "pgsluice.cli.schedule",
        "schedule",
        "Send messages and events periodically.",
    ),
    "worker": ("pgsluice.cli.worker", "worker", "Run the handlers of an app."),
    "shards": (
        "pgsluice.cli.shards",
        "shards",
        "Manage several databases that share keys.",
    ),
    "workers": (
        "pgsluice.cli.workers",
        "workers",
        "List worker processes and what they run.",
    ),
    "actions": (
        "pgsluice.cli.actions",
        "actions",
        "List actions of operators, newest first.",
    ),
    "maintain": (
        "pgsluice.cli.maintain",
        "maintain",
        "Run maintenance: ticks, rotation, retries, retention.",
    ),
    "dashboard": (
        "pgsluice.cli.dashboard",
        "dashboard",
        "See and operate queues, logs and more in a browser.",
    ),
    "metrics": ("pgsluice.cli.metrics", "metrics", "Print or serve metrics for Prometheus."),
    "notify": ("pgsluice.cli.notify", "notify", "Notify listeners of new messages."),
    "explain": (
        "pgsluice.cli.explain",
        "explain",
        "Explain why a message, queue or consumer is not running.",
    ),
    "embedded": (
        "pgsluice.cli.embedded",
        "embedded",
        "Run an embedded PostgreSQL server.",
    ),
    "pipeline": (
        "pgsluice.cli.pipeline",
        "pipeline",
        "Export logs and archives to a data lake, and replay rows from it.",
    ),
    "lake": (
        "pgsluice.cli.lake",
        "lake",
        "Compact, vacuum and inspect lake tables.",
    ),
    "demo": ("pgsluice.cli.demo", "demo", "Run the whole system and verify every row."),
}
# Commands of other programs → ours.
OTHER_NAMES = {
    "init": "schema install",
    "install": "schema install",
    "migrate": "schema upgrade",
    "upgrade": "schema upgrade",
    "create": "queue create QUEUE",
    "list": "queue list",
    "queues": "queue list",
    "send": "queue send QUEUE",
    "enqueue": "queue send QUEUE",
    "publish": "queue send QUEUE",
    "read": "queue read QUEUE",
    "peek": "queue browse QUEUE",
    "retry": "queue retry QUEUE",
    "redrive": "dead-letters redrive QUEUE",
    "dlq": "dead-letters list QUEUE",
    "dead": "dead-letters list QUEUE",
    "failed": "dead-letters list QUEUE",
    "cron": "schedule list",
    "schedules": "schedule list",
    "beat": "maintain",
    "ticker": "maintain",
    "run": "worker run MODULE:APP",
    "start": "worker run MODULE:APP",
    "work": "worker run MODULE:APP",
    "ps": "workers",
    "stats": "queue list",
    "info": "status",
    "check": "doctor",
    "health": "doctor",
    "web": "dashboard",
    "ui": "dashboard",
    "logs": "log list",
    "version": "--version",
    "help": "--help",
    "queue stats": "queue show QUEUE",
    "queue info": "queue show QUEUE",
    "queue status": "queue show QUEUE",
    "queue metrics": "queue list QUEUE",
    "queue delete-queue": "queue drop QUEUE",
    "queue pause": "queue set QUEUE paused=true",
    "queue resume": "queue set QUEUE paused=false",
    "queue peek": "queue browse QUEUE",
    "queue dlq": "dead-letters list QUEUE",
    "queue redrive": "dead-letters redrive QUEUE",
    "log info": "log show LOG",
    "log stats": "log show LOG",
    "group info": "group show LOG GROUP",
    "schedule add": "schedule create NAME",
    "worker list": "workers",
    "worker start": "worker run MODULE:APP",
    "workers list": "workers",
    "workers run": "worker run MODULE:APP",
    "schema migrate": "schema upgrade",
    "schema init": "schema install",
    "schema print": "schema install --print",
}
_EPILOG = """\b
Durations are seconds, or a number and a unit: 30, 500ms, 30s, 5m, 2h, 1d, 1w.
Times are ISO 8601; without a time zone, in the local one.

\b
Exit codes:
  0    done
  1    negative result: a difference, a failed check, nothing to drop
  2    usage error
  3    cannot run; standard error has the reason
  75   worker run: handlers hang; restart the worker
  130  interrupted

\b
Shell completion (bash; also zsh_source, fish_source):
  eval "$(_PGSLUICE_COMPLETE=bash_source pgsluice)"
"""


class LazyGroup(click.Group):
    """Group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from pgsluice.cli.options import refuse_empty

        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        refuse_empty(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for name in (args[0], " ".join(args[:2])):
            if name in OTHER_NAMES:
                ctx.fail(f"No such command {name!r}. Use: pgsluice {OTHER_NAMES[name]}")
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


def did_you_mean(name: str, known: Any) -> str:
    """Return a hint that begins with a space, or an empty text if no known name is close."""
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


@click.command(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG
)
@click.version_option(package_name="pgsluice", prog_name="pgsluice")
def cli() -> None:
    """Message queues and event logs in PostgreSQL, with exactly-once export to a data lake."""


def _print_exception(
    _kind: type[BaseException], error: BaseException, _trace: TracebackType | None
) -> None:
    """Print the traceback of an exception of ours without the control characters of its message."""
    sys.stderr.write(f"{printable_block(''.join(traceback.format_exception(error)).rstrip())}\n")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit; every error is one line on standard error."""
    if logging.lastResort is not None:  # it writes the log of commands that configure none
        logging.lastResort.setFormatter(PrintableFormatter())
    sys.excepthook = _print_exception
    try:
        code: Any = cli.main(args=arguments, prog_name="pgsluice", standalone_mode=False)
    except click.ClickException as error:
        from pgsluice.cli.printing import echo_lines

        shown = io.StringIO()
        error.show(shown)
        echo_lines(shown.getvalue(), nl=False, err=True)
        sys.exit(error.exit_code)
    except click.Abort as error:
        from pgsluice.cli.printing import echo

        is_interrupted = isinstance(error.__cause__, KeyboardInterrupt)
        echo("interrupted" if is_interrupted else "cancelled", err=True)
        sys.exit(EXIT_INTERRUPTED if is_interrupted else EXIT_DIFFERENCE)
    except Exception as error:  # noqa: BLE001 - raised again unless it is one of ours
        from pgsluice.cli.failures import report

        sys.exit(EXIT_USAGE if report(error) else EXIT_ERROR)
    sys.exit(code if isinstance(code, int) else 0)

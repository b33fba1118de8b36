"""Errors of commands: one line on standard error, with the command to run, and an exit code."""

from __future__ import annotations

import psycopg

from pgsluice.cli.printing import echo
from pgsluice.commands import command
from pgsluice.errors import (
    ArgumentError,
    ConsumerNotFoundError,
    DeduplicationOffError,
    ExportError,
    GroupNotFoundError,
    GroupStateError,
    LogNotFoundError,
    QueueNameError,
    QueueNotFoundError,
    ScheduleNotFoundError,
    SluiceError,
    one_line,
)


def hint(error: Exception) -> str:
    """Return the message of an error on one line; an error about a named object names the command to run."""
    if not isinstance(error, SluiceError) or not error.names:
        return one_line(str(error))
    match error:
        case QueueNotFoundError():
            advice = f"create it with: {command('queue create', *error.names)}"
        case LogNotFoundError():
            advice = f"create it with: {command('log create', *error.names)}"
        case GroupNotFoundError():
            advice = f"create it with: {command('group create', *error.names)}"
        case GroupStateError():
            advice = f"change it with: {command('group set', *error.names)}"
        case ConsumerNotFoundError():
            advice = f"register it with: {command('log consume --register', *error.names)}"
        case ScheduleNotFoundError():
            advice = f"list schedules with: {command('schedule list')}"
        case ExportError():
            advice = f"list exports with: {command('queue show', error.names[0])}"
        case DeduplicationOffError():
            window = command("queue set", *error.names, "deduplication_window=5 minutes")
            advice = f"set a window with: {window}"
        case _:
            return one_line(str(error))
    return one_line(f"{error.problem}; {advice}")


def report(error: Exception) -> bool:
    """Print an error; return True if it is one of usage.

    Raises:
        Exception: The error itself, if it is none that commands expect.
    """
    if not isinstance(error, SluiceError | psycopg.Error | OSError | UnicodeError):
        raise error
    echo(f"pgsluice: {hint(error)}", err=True)
    return isinstance(error, ArgumentError | QueueNameError)

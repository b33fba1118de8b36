"""What can go wrong, one class per meaning, each with the way out in its message.

Errors of the database are told apart by SQLSTATE, never by their text. Every class can be pickled, so
an error raised in a worker process or a Spark executor arrives whole; the server's own error is kept
as `__cause__` where there is one.
"""

from __future__ import annotations

import psycopg


class SluiceError(Exception):
    """The root of every error this package raises on purpose.

    Attributes:
        sqlstate: The server's five-character code, or None when no server was involved.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), self.sqlstate))


def _rebuild(kind: type[SluiceError], message: str, sqlstate: str | None) -> SluiceError:
    return kind(message, sqlstate=sqlstate)


class ConfigurationError(SluiceError):
    """A setting, a DSN or an argument of a command cannot be used."""


class MissingExtraError(SluiceError):
    """A part of pgsluice was called whose optional dependencies are not installed."""


class MissingJavaError(SluiceError):
    """Spark was asked for and no usable Java runtime was found."""


class EmbeddedServerError(SluiceError):
    """The embedded PostgreSQL cannot be started, stopped or reached."""


class ConnectionFailedError(SluiceError):
    """No connection: the server is unreachable, or refused the user, password or database."""


class CommitUnknownError(ConnectionFailedError):
    """The connection was lost before the server's answer came: what was asked for was done whole, or not at all.

    To ask again may do it twice. A message with a deduplication key is not sent twice: the second call finds the first.
    """


class SchemaError(SluiceError):
    """The schema cannot be installed, upgraded or removed as asked."""


class NotInstalledError(SluiceError):
    """The database has no pgsluice schema, or an older one than this package needs."""


class PrivilegeError(SluiceError):
    """The connected role may not do this."""


class PayloadError(SluiceError):
    """A payload is not of its type, or cannot be stored as JSON."""


class ArgumentError(SluiceError):
    """An argument is out of range or of the wrong shape; nothing was changed."""


class QueueNameError(SluiceError):
    """A queue name cannot be used, or would share its table with another queue."""


class QueueNotFoundError(SluiceError):
    """The work queue does not exist."""


class DeduplicationOffError(SluiceError):
    """A message was sent with a key to a queue that knows no keys; nothing was sent."""


class ExportError(SluiceError):
    """The queue has no export of this name, or it is of another table of the lake."""


class LogNotFoundError(SluiceError):
    """The event log does not exist."""


class LogInUseError(SluiceError):
    """The event log still has consumers."""


class ConsumerNotFoundError(SluiceError):
    """The consumer is not registered on this event log."""


class BatchNotFoundError(SluiceError):
    """The batch is not open: it was finished, or never existed."""


class LogStateError(SluiceError):
    """The event log is not in a state that allows this (paused, disabled, no ticks, stale snapshot)."""


class PositionLostError(SluiceError):
    """The consumer's position was given up, so that the log could go on without it: events are missing."""


class CaptureError(SluiceError):
    """A trigger of an event log is misused: it cannot be made so, does not fit its table, or denies the change."""


class GroupNotFoundError(SluiceError):
    """The event log has no share group of this name."""


class LeaseLostError(SluiceError):
    """A claim is over: settled otherwise, or lapsed and its events claimed again. Nothing was changed."""


class ClaimNotFoundError(SluiceError):
    """The share group has no such claim, or the claim no such events."""


class GroupStateError(SluiceError):
    """The share group is not in a state that allows this, or exists with other options."""


class ScheduleNotFoundError(SluiceError):
    """There is no schedule of this name."""


class HandlerError(SluiceError):
    """A handler did with its connection what it must not."""


class RetryableError(SluiceError):
    """The server ended the transaction for a reason that passes: run the transaction again."""


class ReadOnlyError(RetryableError):
    """The transaction is read-only: the server is a standby, or the settings of the role or database say so."""


class DiskFullError(RetryableError):
    """The server has no disk space left for what the transaction writes."""


class GroupBusyError(RetryableError):
    """Another transaction keeps a share group to itself, as a claim in a transaction that stays open does."""


class UnsupportedReaderError(SluiceError):
    """Rows cannot be read in this way here; in another they can."""


# What passes by itself: to connect or to run the transaction again later may succeed.
TRANSIENT = (ConnectionFailedError, RetryableError)


class ServerError(SluiceError):
    """Any other error of the server; `sqlstate` and `__cause__` tell which."""


_BY_SQLSTATE: dict[str, type[SluiceError]] = {
    "QU001": QueueNameError,
    "QU002": QueueNameError,
    "QU003": QueueNotFoundError,
    "QU004": DeduplicationOffError,
    "QU005": QueueNotFoundError,
    "QU006": ExportError,
    "PQ001": LogNotFoundError,
    "PQ002": ConsumerNotFoundError,
    "PQ003": BatchNotFoundError,
    "PQ004": LogStateError,
    "PQ005": LogInUseError,
    "PQ006": PositionLostError,
    "PQ007": CaptureError,
    "SG001": GroupNotFoundError,
    "SG002": LeaseLostError,
    "SG003": ClaimNotFoundError,
    "SG004": GroupStateError,
    "SG005": GroupBusyError,
    "RS001": ScheduleNotFoundError,
    "RS002": ArgumentError,
    "2201W": ArgumentError,  # invalid_row_count_in_limit_clause: a negative quantity
    "22003": ArgumentError,  # numeric_value_out_of_range
    "22004": ArgumentError,  # null_value_not_allowed
    "22023": ArgumentError,  # invalid_parameter_value
    "22008": ArgumentError,  # datetime_field_overflow
    "23502": ArgumentError,  # not_null_violation
    "22P02": PayloadError,  # invalid_text_representation
    "22P05": PayloadError,  # untranslatable_character: \u0000
    "3F000": NotInstalledError,  # invalid_schema_name
    "42883": NotInstalledError,  # undefined_function
    "42501": PrivilegeError,
    "40001": RetryableError,
    "40P01": RetryableError,
    "55P03": RetryableError,
    "57014": RetryableError,
    "25006": ReadOnlyError,
    "25P03": RetryableError,
    "25P04": RetryableError,
    "53100": DiskFullError,
    "53300": ConnectionFailedError,
}

_OURS = frozenset(code for code in _BY_SQLSTATE if code.startswith(("QU", "PQ", "SG", "RS")))

_WAY_OUT: dict[type[SluiceError], str] = {
    NotInstalledError: "install or upgrade it with `pgsluice schema install`",
    PrivilegeError: "ask an administrator to grant the role sluice_reader, sluice_writer or "
    "sluice_admin",
    RetryableError: "roll back and run the transaction again",
    ReadOnlyError: "connect to the primary, or name all servers in the DSN and add target_session_attrs=read-write",
    DiskFullError: "free disk space on the server, and run the transaction again",
}


def translate(error: psycopg.Error, *, queue_name: str | None = None) -> SluiceError:
    """Turn an error of the driver into the class that names its meaning.

    Args:
        error: What psycopg raised.
        queue_name: The work queue that the failed call named, so that a missing table gets its name.

    Returns:
        A new error; raise it `from error`. Its message is the server's, then its hint or our way out.
    """
    sqlstate = error.sqlstate
    if sqlstate is None:
        if isinstance(error, psycopg.OperationalError):
            return ConnectionFailedError(
                f"{one_line(str(error))}; check that the server runs and is reachable"
            )
        return ServerError(one_line(str(error)))

    if sqlstate == "42P01" and queue_name is not None:
        return QueueNotFoundError(
            f"queue {queue_name!r} does not exist; create it with create({queue_name!r})",
            sqlstate=sqlstate,
        )

    kind = _BY_SQLSTATE.get(sqlstate, ServerError)
    if sqlstate.startswith(("08", "57P")):
        kind = ConnectionFailedError
    message = error.diag.message_primary or one_line(str(error))
    if sqlstate in _OURS and error.diag.message_detail:
        # Only of our own errors: others quote rows of the user's.
        message = f"{message} ({error.diag.message_detail.rstrip('.')})"
    way_out = error.diag.message_hint or _WAY_OUT.get(kind)
    return kind(f"{message}; {way_out}" if way_out else message, sqlstate=sqlstate)


def commit_unknown(error: psycopg.Error) -> CommitUnknownError:
    """What to raise, `from error`, for a call that was a transaction of its own when its connection was lost."""
    return CommitUnknownError(
        f"{one_line(str(error))}; what was asked for may have been done: look, or ask again where twice does no harm",
        sqlstate=error.sqlstate,
    )


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())

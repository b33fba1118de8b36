"""How each process of a Spark application finds the database, without Spark ever seeing a password.

Options of a source are written into plans, event logs and messages. So an option holds a URL only when
there is no password in it; otherwise it names a file or an environment variable that holds the URL.
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
from psycopg import conninfo

from pgsluice import connection
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import Call
from pgsluice.errors import ConfigurationError, SluiceError, one_line, translate

Result = TypeVar("Result")

_WAYS = ("dsn", "dsnFile", "dsnEnv")
# Empty, any of these would silently mean another server or another source.
_PLACES = (*_WAYS, "shards", "log", "queue", "consumer", "export")
_FILE_PREFIX = "pgsluice-"
_FILE_SUFFIX = ".dsn"


@dataclass(frozen=True, slots=True)
class Access:
    """A way to the database that may be pickled, logged and printed.

    Attributes:
        dsn: A libpq URL or keyword string without a password, or None.
        dsn_file: A file that holds one, readable by its owner alone, or None.
        dsn_env: An environment variable that holds one, or None. With all three None the rule of
            `connection.resolve` decides in each process.
    """

    dsn: str | None = None
    dsn_file: str | None = None
    dsn_env: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Access:
        """Read the options `dsn`, `dsnFile` and `dsnEnv`.

        Raises:
            ConfigurationError: More than one is given, or `dsn` holds a password, which is not quoted; or an option
                that names a place is empty.
        """
        for name in _PLACES:
            if name in options and not options[name].strip():
                raise ConfigurationError(
                    f"the option {name} is empty; give a value or leave it out"
                )
        given = {name: options[name] for name in _WAYS if name in options}
        if len(given) > 1:
            raise ConfigurationError(
                f"the options {' and '.join(given)} are given; give one of them"
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
        """The options that `from_options` reads back."""
        named = {"dsn": self.dsn, "dsnFile": self.dsn_file, "dsnEnv": self.dsn_env}
        return {name: value for name, value in named.items() if value is not None}

    def conninfo(self) -> str:
        """What libpq takes, in this process. It may hold a password.

        Raises:
            ConfigurationError: The file or variable is not there, is readable by others, or holds
                something that cannot be parsed.
        """
        if self.dsn_env is not None:
            text = os.environ.get(self.dsn_env)
            if not text or not text.strip():
                raise ConfigurationError(
                    f"the environment variable {self.dsn_env} (option dsnEnv) is not set in a process "
                    "of Spark; set it before the session starts, on every machine"
                )
        elif self.dsn_file is not None:
            text = _read_private(Path(self.dsn_file).expanduser())
        else:
            text = self.dsn
        return connection.resolve(text, start_embedded=False).conninfo


def secrets_of(dsn: str) -> tuple[str, ...]:
    """The secret values inside a DSN.

    Raises:
        ConfigurationError: It cannot be parsed; it is not quoted.
    """
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise ConfigurationError(
            "the DSN cannot be parsed; use postgresql://user:password@host:port/database with special "
            "characters percent-encoded"
        ) from None
    return tuple(str(parts[key]) for key in connection.SECRET_KEYWORDS if parts.get(key))


def scrub(text: object, dsn: str) -> str:
    """The text on one line, without the secrets of the DSN and without the DSN itself."""
    line = one_line(str(text))
    for secret in (dsn, *secrets_of(dsn)):
        if secret:
            line = line.replace(secret, "***")
    return line


@contextmanager
def private_file(dsn: str) -> Iterator[Path]:
    """Keep a DSN in a new file that only this user can read, until the block ends.

    A process that is killed cannot remove its file, so each removes first what others have left. Whoever made a
    file holds a lock on it as long as it lives: its number alone would not tell, as another process may have it now.
    """
    folder = Path(tempfile.gettempdir())
    _remove_abandoned(folder)
    handle, name = tempfile.mkstemp(prefix=_FILE_PREFIX, dir=folder)  # mode 0600
    path = Path(f"{name}{_FILE_SUFFIX}")
    try:
        # Named as such only when it is locked, and filled only when it is named.
        fcntl.flock(handle, fcntl.LOCK_EX)
        Path(name).rename(path)
        os.write(handle, dsn.encode())
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _remove_abandoned(folder: Path) -> None:
    """Remove the files of this user's processes that are no more."""
    for path in folder.glob(f"{_FILE_PREFIX}*{_FILE_SUFFIX}"):
        try:
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or gone meanwhile
        try:
            if os.fstat(handle).st_uid == os.getuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # it is in use
        finally:
            os.close(handle)


def driver_connection(access: Access, **options: Any) -> psycopg.Connection[Any]:
    """Open a psycopg connection whose error does not carry the DSN, not even in its cause.

    Raises:
        ConnectionFailedError: As `connection.connect` says it.
    """
    target = connection.Target(access.conninfo(), "Spark's options")
    try:
        return connection.connect(target, **options)
    except SluiceError as error:
        # Spark prints the whole chain of causes into its logs.
        raise type(error)(scrub(error, target.conninfo), sqlstate=error.sqlstate) from None


def run(database: psycopg.Connection[Any], call: Call[Result], dsn: str) -> Result:
    """Run one call on a connection; its error carries neither the DSN nor a cause.

    Raises:
        SluiceError: As the client of Python says it.
    """
    try:
        return Runner(database).run(call)
    except SluiceError as error:
        raise type(error)(scrub(error, dsn), sqlstate=error.sqlstate) from None


def prepare(
    database: psycopg.Connection[Any], statements: Sequence[LiteralString], dsn: str
) -> None:
    """Run statements that return nothing; errors as those of `run`."""
    with scrubbed(dsn):
        for statement in statements:
            database.execute(statement)


@contextmanager
def scrubbed(dsn: str) -> Iterator[None]:
    """Translate the driver's errors of the block; they carry neither the DSN nor a cause."""
    try:
        yield
    except psycopg.Error as error:
        failure = translate(error)
        raise type(failure)(scrub(failure, dsn), sqlstate=failure.sqlstate) from None


def _read_private(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            f"the file {path} (option dsnFile) cannot be read: {error.strerror}; it must be there on "
            "every machine that runs Spark's workers"
        ) from None
    if mode & 0o077:
        raise ConfigurationError(
            f"the file {path} (option dsnFile) can be read by others; `chmod 600 {path}`"
        )
    if not text:
        raise ConfigurationError(
            f"the file {path} (option dsnFile) is empty; write the URL into it"
        )
    return text


def access_for(dsn: str | None, cleanup: ExitStack) -> Access:
    """Decide where to connect, and how Spark's workers learn of it without Spark knowing.

    A DSN with a password is written to a file on this machine, which goes with the clean-up; a cluster's other
    machines do not have it. `env:NAME` and `file:PATH` name what every machine has: an environment variable, or
    a file, in which `~` is the home of whoever reads it.
    """
    kind, _, name = (dsn or "").partition(":")
    if kind in ("env", "file") and not name.strip():
        raise ConfigurationError(
            f'the DSN "{kind}:" names nothing; write env:NAME of a variable or file:PATH of a file'
        )
    if kind == "env":
        return Access(dsn_env=name)
    if kind == "file":
        return Access(dsn_file=name)
    conninfo = connection.resolve(dsn).conninfo
    if not conninfo:
        return Access()  # libpq's own variables, which the workers inherit
    if not secrets_of(conninfo):
        return Access(dsn=conninfo)
    return Access(dsn_file=str(cleanup.enter_context(private_file(conninfo))))

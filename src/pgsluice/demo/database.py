"""The demo's own database, `pgsluice_demo`: create, drop, and read the progress of its run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from typing import Any, Self

import psycopg
from psycopg import conninfo
from psycopg.rows import class_row

from pgsluice import connection
from pgsluice.connection import Target
from pgsluice.demo.statements import one_value, statement
from pgsluice.errors import ConfigurationError, PrivilegeError, SluiceError

DATABASE = "pgsluice_demo"
_PAUSE_S = 0.1
_LOCK_DEADLINE_S = 10.0
_BACKENDS_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class DemoRun:
    """The progress of a run, as stored in its database.

    Attributes:
        run_id: Also in the folder and in the environment of the run's processes.
        seconds: Duration of the load.
        clients: Sessions of the load.
        accounts: Rows of pgbench_accounts.
        started_at: Start of the run.
        prepared_at: Time when the data and the first message were complete, or None.
        loaded_at: Time when the load completed, or None.
        finished_at: Time of the result, or None.
        interruptions: Number of restarts.
        poison_msg_id: The message that always fails.
    """

    run_id: str
    seconds: int
    clients: int
    accounts: int
    started_at: datetime
    prepared_at: datetime | None
    loaded_at: datetime | None
    finished_at: datetime | None
    interruptions: int
    poison_msg_id: int | None


class DemoDatabase:
    """The demo's database on a server; locked by one demo at a time.

    Args:
        target: The server, and a database to connect to while the demo's own is created or dropped.
    """

    def __init__(self, target: Target) -> None:
        self.target = _with_database(target, DATABASE)
        named = conninfo.conninfo_to_dict(target.conninfo).get("dbname")
        self._maintenance = _with_database(target, "postgres") if named == DATABASE else target

    @property
    def conninfo(self) -> str:
        """The connection string of the demo's database; it may hold a password."""
        return self.target.conninfo

    def __enter__(self) -> Self:
        """Connect and lock out other demos.

        Raises:
            ConfigurationError: Another demo runs on this server.
            ConnectionFailedError: The server cannot be reached.
        """
        self._admin = connection.connect(
            self._maintenance, autocommit=True, application_name="pgsluice demo lock"
        )
        # The session of a killed demo keeps the lock until the server notices its end.
        if not _wait(lambda: self._ask("run_lock"), _LOCK_DEADLINE_S):
            self._admin.close()
            raise ConfigurationError(
                f"another demo uses the database {DATABASE} on {self._maintenance.safe}; wait until it "
                "ends"
            )
        return self

    def __exit__(self, *_exception: object) -> None:
        self._admin.close()

    def connect(self, part: str = "") -> psycopg.Connection[Any]:
        """Open a connection in autocommit mode to the demo's database.

        Args:
            part: The part of the demo that uses it; added to its application name.
        """
        name = f"pgsluice demo {part}".strip()
        return connection.connect(self.target, autocommit=True, application_name=name)

    def find_run(self) -> DemoRun | None:
        """Return the stored run; None if the database does not exist or was just created.

        Raises:
            ConfigurationError: The database holds other tables.
        """
        if not self._ask("database_exists"):
            return None
        with self.connect() as reader:
            if one_value(reader, "run_exists"):
                return (
                    reader.cursor(row_factory=class_row(DemoRun))
                    .execute(statement("run_read"))
                    .fetchone()
                )
            if not one_value(reader, "database_is_empty"):
                raise ConfigurationError(
                    f"the database {DATABASE} on {self._maintenance.safe} holds tables of another application, "
                    "which the demo would drop; rename it, or use another server with "
                    "--dsn"
                )
        return None

    def end_sessions(self) -> None:
        """Terminate the sessions of a killed run, and wait until they have ended.

        Raises:
            SluiceError: A session does not end.
        """
        if not _wait(lambda: self._ask("backends_terminate") == 0, _BACKENDS_DEADLINE_S):
            raise SluiceError(
                f"sessions of an earlier demo in the database {DATABASE} have not ended within "
                f"{_BACKENDS_DEADLINE_S:g} s after termination; see pg_stat_activity"
            )

    def create(self) -> None:
        """Drop the database if it exists, and create it, empty.

        Raises:
            PrivilegeError: The role may not create databases.
        """
        self._admin.execute(statement("database_drop"))
        try:
            self._admin.execute(statement("database_create"))
        except psycopg.errors.InsufficientPrivilege as error:
            raise PrivilegeError(
                f"the demo needs a database of its own, {DATABASE}, and this role may not create it; "
                "connect as a role with CREATEDB, or omit --dsn to use the embedded server",
                sqlstate=error.sqlstate,
            ) from error

    def _ask(self, name: str) -> Any:
        return one_value(self._admin, name)


def libpq_environment(conninfo_text: str) -> Mapping[str, str]:
    """Return the connection as libpq's environment variables: other users can read the arguments of programs."""
    variables = {
        option.keyword.decode(): option.envvar.decode()
        for option in psycopg.pq.Conninfo.get_defaults()
        if option.envvar
    }
    parts = conninfo.conninfo_to_dict(conninfo_text)
    return {variables[key]: str(value) for key, value in parts.items() if key in variables}


def _with_database(target: Target, database: str) -> Target:
    return Target(conninfo.make_conninfo(target.conninfo, dbname=database), target.source)


def _wait(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Poll a condition; return True if it was met before the deadline."""
    pause = Event()
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        pause.wait(_PAUSE_S)
    return True

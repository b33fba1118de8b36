"""PgQue, a port of PgQ to plain SQL, from the SQL file in its repository: `--pgque FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from pgsluice.errors import ConfigurationError

_OWN, _COMMON = "pgque", "pgq"
_VERSION = "-- Version: "


class Pgque:
    """A peer of the event log.

    Its functions have PgQ's names in a schema of its own. The file is installed with that name replaced by PgQ's, so
    that the same statements run on all systems.
    """

    name = "PgQue"

    def __init__(self, path: Path) -> None:
        """Read `sql/pgque.sql` of a copy of github.com/NikolayS/PgQue.

        Raises:
            ConfigurationError: The file cannot be read, or is another.
        """
        try:
            self._sql = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"--pgque cannot be read: {error}") from error
        if f"create schema if not exists {_OWN}" not in self._sql:
            raise ConfigurationError(f"{path} does not create the schema {_OWN}; use sql/pgque.sql")

    def version(self) -> str:
        """Return the version in the head of the file."""
        found = [line for line in self._sql.splitlines() if line.startswith(_VERSION)]
        return found[0].removeprefix(_VERSION) if found else "unknown"

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Run the file."""
        connection.execute(self._sql.replace(_OWN, _COMMON).encode())

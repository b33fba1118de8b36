"""PgQ, the extension as Debian packages it for its PostgreSQL 15."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from pgsluice.errors import MissingExtraError

BIN_DIR = Path("/usr/lib/postgresql/15/bin")
CONTROL = Path("/usr/share/postgresql/15/extension/pgq.control")


class Pgq:
    """The peer of the event log."""

    name = "PgQ"

    def version(self) -> str:
        """Return the default version of `create extension`."""
        self._require()
        (line,) = [s for s in CONTROL.read_text().splitlines() if s.startswith("default_version")]
        return line.partition("=")[2].strip(" '")

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Create the extension."""
        self._require()
        connection.execute("create extension pgq")

    def _require(self) -> None:
        if not CONTROL.exists():
            raise MissingExtraError(
                "the peer PgQ is not installed; on Debian run apt-get install postgresql-15-pgq3"
            )

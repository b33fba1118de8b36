"""PGMQ, from the SQL file in its own Python package."""

from __future__ import annotations

from importlib import resources
from typing import Any

import psycopg

from pgsluice.errors import MissingExtraError


class Pgmq:
    """Peer."""

    name = "PGMQ"

    def version(self) -> str:
        """Return the version of the SQL file, not of its Python package."""
        return self._read("VERSION").strip()

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Run the SQL file."""
        connection.execute(self._read("pgmq.sql"))

    def _read(self, name: str) -> str:
        try:
            folder = resources.files("pgmq") / "sql"
        except ModuleNotFoundError:
            raise MissingExtraError(
                "the peer PGMQ is not installed; run pip install pgmq==1.1.4"
            ) from None
        return (folder / name).read_text(encoding="utf-8")

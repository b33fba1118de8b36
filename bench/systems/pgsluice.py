"""pgsluice, installed from this checkout."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import psycopg

from pgsluice import schema


class Pgsluice:
    """The system under test."""

    def __init__(self, name: str = "pgsluice") -> None:
        """Set the name shown in the results."""
        self.name = name

    def version(self) -> str:
        """Return the package version."""
        return version("pgsluice")

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install our schemas."""
        schema.install(connection)

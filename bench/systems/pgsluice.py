"""pgsluice, as this checkout installs it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import psycopg

from pgsluice import schema


class Pgsluice:
    """The system under test."""

    def __init__(self, name: str = "pgsluice") -> None:
        """Name it by what is asked of it, where that is not the whole of it."""
        self.name = name

    def version(self) -> str:
        """The package's version."""
        return version("pgsluice")

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install our schemas."""
        schema.install(connection)

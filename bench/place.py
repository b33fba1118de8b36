"""Database of a measured system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.embedded import EmbeddedServer


@dataclass(frozen=True)
class Place:
    """Database with one system.

    Attributes:
        name: Name of the system.
        connection: Connection in autocommit mode.
        server: Its server, for further connections and programs.
    """

    name: str
    connection: psycopg.Connection[Any]
    server: EmbeddedServer

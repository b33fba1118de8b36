"""Where a question is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.embedded import EmbeddedServer


@dataclass(frozen=True)
class Place:
    """A database with one system.

    Attributes:
        name: Of the system.
        connection: To it, in autocommit mode.
        server: Where it is, for who needs another connection or a program.
    """

    name: str
    connection: psycopg.Connection[Any]
    server: EmbeddedServer

"""Database of a measured system."""

from __future__ import annotations

from collections.abc import Callable
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
        save: Writes the results so far to the result file, for workloads that take long.
    """

    name: str
    connection: psycopg.Connection[Any]
    server: EmbeddedServer
    save: Callable[[], None] = lambda: None

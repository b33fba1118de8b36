"""Database of a measured system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
        places: Those of all systems by name, for workloads that measure them in turns.
    """

    name: str
    connection: psycopg.Connection[Any]
    server: EmbeddedServer
    save: Callable[[], None] = lambda: None
    places: Mapping[str, Place] = field(default_factory=dict)

"""Adapters of the measured systems."""

from __future__ import annotations

from typing import Any, Protocol

import psycopg

from bench.systems.pgmq import Pgmq
from bench.systems.pgsluice import Pgsluice


class System(Protocol):
    """Work queue in PostgreSQL with PGMQ's SQL functions."""

    name: str

    def version(self) -> str:
        """Return the version that `install` installs."""

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install it into an empty database."""


def systems() -> list[System]:
    """Return the default systems of a workload: ours first, then its peers."""
    return [Pgsluice(), Pgmq()]

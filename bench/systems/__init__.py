"""What is measured: one adapter each, one interface."""

from __future__ import annotations

from typing import Any, Protocol

import psycopg

from bench.systems.pgmq import Pgmq
from bench.systems.pgsluice import Pgsluice


class System(Protocol):
    """A work queue in PostgreSQL whose SQL functions are PGMQ's."""

    name: str

    def version(self) -> str:
        """The version of what `install` installs."""

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Install it into an empty database."""


def systems() -> list[System]:
    """Who takes part where a workload names nobody else: ours first; the others are its peers."""
    return [Pgsluice(), Pgmq()]

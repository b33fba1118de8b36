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


def systems(workload: str) -> list[System]:
    """Who takes part in a workload: ours first; the others are its peers."""
    if workload == "client":
        return [Pgsluice(name) for name in ("WorkQueue", "by hand", "TableQueue")]
    return [Pgsluice(), Pgmq()]

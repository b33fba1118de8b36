"""CPU time of the backend, a measure of server cost that is less sensitive to other load than wall-clock time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from pgsluice.errors import ConfigurationError


def backend_cpu_s(connection: psycopg.Connection[Any]) -> float:
    """Return the CPU time in seconds used by a connection's backend; requires a local server on Linux."""
    place = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    if not place.exists():
        raise ConfigurationError(
            f"{place} does not exist; this question requires Linux and a local server"
        )
    return int(place.read_text().split()[0]) / 1e9


def per_cpu_s(connection: psycopg.Connection[Any], times: int, action: Callable[[], None]) -> float:
    """Run an action and return its rate per second of the backend's CPU time.

    Args:
        connection: Connection whose backend does the work.
        times: Number of calls, or events, in the action.
        action: Function that performs all calls.
    """
    before = backend_cpu_s(connection)
    action()
    return times / (backend_cpu_s(connection) - before)

"""What a statement costs the server: processor time of the backend, which other load disturbs less than the clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from pgsluice.errors import ConfigurationError


def backend_cpu_s(connection: psycopg.Connection[Any]) -> float:
    """Return the processor time that a connection's backend has used so far, seconds. For a server here, on Linux."""
    place = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    if not place.exists():
        raise ConfigurationError(
            f"{place} is absent: this question needs Linux, and a server on this machine"
        )
    return int(place.read_text().split()[0]) / 1e9


def per_cpu_s(connection: psycopg.Connection[Any], times: int, action: Callable[[], None]) -> float:
    """Do something and return how many times a second of the backend's processor time it would be done.

    Args:
        connection: Whose backend does the work.
        times: What the action counts for: how many calls, or events.
        action: Does all of it.
    """
    before = backend_cpu_s(connection)
    action()
    return times / (backend_cpu_s(connection) - before)

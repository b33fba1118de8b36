"""Sessions of processes whose server goes away and comes back."""

from __future__ import annotations

import time

import psycopg

# A time of the server as a whole number.
MICROSECONDS = "(extract(epoch from {}) * 1000000)::bigint"
NOW = MICROSECONDS.format("clock_timestamp()")
DEADLINE_S = 60.0


def connect(url: str) -> psycopg.Connection:
    """Connect, as soon as there is a server."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def is_gone(session: psycopg.Connection, error: psycopg.Error) -> bool:
    """Did the session end with this error? Any other error has a cause of its own."""
    return isinstance(error, psycopg.OperationalError) and session.closed

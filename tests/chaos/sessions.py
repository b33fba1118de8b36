"""Sessions that survive restarts of the server."""

from __future__ import annotations

import time

import psycopg

# A server time as an integer.
MICROSECONDS = "(extract(epoch from {}) * 1000000)::bigint"
NOW = MICROSECONDS.format("clock_timestamp()")
DEADLINE_S = 60.0


def connect(url: str) -> psycopg.Connection:
    """Connect as soon as the server accepts connections."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def is_gone(session: psycopg.Connection, error: psycopg.Error) -> bool:
    """True if the error means that the session is lost."""
    return isinstance(error, psycopg.OperationalError) and session.closed

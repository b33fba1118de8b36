"""Common helpers of the tests."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest

# Runs a client test on the functions, and on plain tables in a database without functions: see
# client/conftest.py.
on_functions_and_tables = pytest.mark.parametrize("mode", ["functions", "tables"])


def rows(connection: psycopg.Connection, query: str, *parameters: object) -> list[tuple]:
    return connection.execute(query, parameters or None).fetchall()


def value(connection: psycopg.Connection, query: str, *parameters: object) -> object:
    return rows(connection, query, *parameters)[0][0]


def replace_in(connection: psycopg.Connection, function: str, old: str, new: str) -> None:
    """Inject a bug or a gate: replace one place in the source of a function."""
    source = value(connection, "select pg_get_functiondef(%s::regprocedure)", function)
    assert source.count(old) == 1, f"{function} has {source.count(old)} times {old!r}"
    connection.execute(source.replace(old, new))


def wal_bytes(connection: psycopg.Connection, call: str, *arguments: object) -> int:
    """Return the bytes of WAL that a call writes in its own session; the server's position has those of others too."""
    query = f"explain (analyze, wal, format json) select {call}"
    return value(connection, query, *arguments)[0]["Plan"]["WAL Bytes"]


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
    """Wait for a condition; fail with its description."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s} s for {what}")
        time.sleep(0.01)


def wait_for_lock(observer: psycopg.Connection, waiting: psycopg.Connection) -> None:
    """Wait until a session waits for a lock."""
    pid = waiting.info.backend_pid
    wait_until(
        lambda: (
            value(
                observer,
                "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s",
                pid,
            )
            is True
        ),
        f"session {pid} to wait for a lock",
    )


def wait_for_sleep(observer: psycopg.Connection, waiting: psycopg.Connection) -> None:
    """Wait until a session sleeps between two looks."""
    pid = waiting.info.backend_pid
    wait_until(
        lambda: (
            value(
                observer, "select wait_event = 'PgSleep' from pg_stat_activity where pid = %s", pid
            )
            is True
        ),
        f"session {pid} to sleep",
    )

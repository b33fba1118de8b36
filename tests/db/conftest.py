"""Fixtures: two logs, one for a test to break, and the warnings of a session."""

from __future__ import annotations

import psycopg
import pytest


@pytest.fixture
def logs(connection: psycopg.Connection) -> psycopg.Connection:
    """Create the logs `broken` (1) and `events` (2), each with a consumer."""
    for name in ("broken", "events"):
        connection.execute("select pgq.create_queue(%s)", (name,))
        connection.execute("select pgq.register_consumer(%s, 'c')", (name,))
    return connection


@pytest.fixture
def warnings(connection: psycopg.Connection) -> list[str]:
    """Return a list that collects the messages of later warnings."""
    found: list[str] = []
    connection.add_notice_handler(lambda d: found.append(d.message_primary or ""))
    return found

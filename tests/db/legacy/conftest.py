"""Fixtures: a database with the function names of PGMQ 0.20, and its warnings."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import schema


@pytest.fixture
def legacy(connection: psycopg.Connection) -> psycopg.Connection:
    """A superuser's session in a database with the PGMQ 0.20 names and a queue `orders`."""
    schema.install(connection, legacy=True)
    connection.execute("select pgmq_create('orders')")
    return connection


@pytest.fixture
def warnings(legacy: psycopg.Connection) -> list[str]:
    """A list that collects the warnings of the session."""
    found: list[str] = []

    def collect(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity == "WARNING":
            found.append(diagnostic.message_primary or "")

    legacy.add_notice_handler(collect)
    return found

"""A database with the older names, and a queue in it."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import schema


@pytest.fixture
def legacy(connection: psycopg.Connection) -> psycopg.Connection:
    """A superuser's session in a database with the older names and a queue `orders`."""
    schema.install(connection, legacy=True)
    connection.execute("select pgmq_create('orders')")
    return connection


@pytest.fixture
def warnings(legacy: psycopg.Connection) -> list[str]:
    """The warnings of the session, as they come."""
    heard: list[str] = []

    def hear(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity == "WARNING":
            heard.append(diagnostic.message_primary or "")

    legacy.add_notice_handler(hear)
    return heard

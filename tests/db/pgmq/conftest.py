"""A queue named `orders` for tests that need one."""

from __future__ import annotations

import psycopg
import pytest


@pytest.fixture
def queue(connection: psycopg.Connection) -> str:
    connection.execute("select pgmq.create('orders')")
    return "orders"

"""A table that is captured, and a claimed message."""

from __future__ import annotations

import psycopg
import pytest


@pytest.fixture
def claimed(connection: psycopg.Connection) -> tuple[int, int]:
    """The claim, (msg_id, read_ct), of the one message of the queue `orders`."""
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send('orders', '{\"n\": 1}'::jsonb, '{\"h\": 2}'::jsonb)")
    return connection.execute("select msg_id, read_ct from pgmq.read('orders', 30, 1)").fetchone()


@pytest.fixture
def captured(connection: psycopg.Connection) -> str:
    connection.execute("create table account (id int primary key, name text)")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.capture('account', 'changes')")
    return "account"


@pytest.fixture
def log(connection: psycopg.Connection) -> psycopg.Connection:
    """A log with the ticks 1 to 5, ten events between any two."""
    connection.execute("select pgq.create_queue(%s)", ("log",))
    for _ in range(4):
        for _ in range(10):
            connection.execute("select pgq.insert_event(%s, 't', 'd')", ("log",))
        connection.execute("select sluice.log_tick(%s)", ("log",))
    return connection

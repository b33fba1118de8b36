"""An event log `changes` with three events in three ticks for the consumer `lake`.

Its settings let each call of the ticker make a tick.
"""

from __future__ import annotations

import psycopg
import pytest

from support.log import tick


@pytest.fixture
def log(connection: psycopg.Connection) -> str:
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    return "changes"


@pytest.fixture
def consumer(connection: psycopg.Connection, log: str) -> str:
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    for _ in range(3):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
    return "lake"

"""An event log `changes`, which ticks at each call of the ticker, with a consumer `lake`."""

from __future__ import annotations

import psycopg
import pytest


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
    return "lake"

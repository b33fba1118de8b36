"""PgQ 3.5 as packaged by Debian, for compatibility and adoption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from support import rows, value

CONTRIB = Path("/usr/share/postgresql/15/contrib")
EXTENSION = Path("/usr/share/postgresql/15/extension/pgq.control")
PACKAGE = "Debian's package postgresql-15-pgq3 is not installed: apt-get install postgresql-15-pgq3"


def plpgsql_text() -> str:
    """Return PgQ without its C parts, for any server."""
    path = CONTRIB / "pgq_pl_only.sql"
    if not path.exists():
        pytest.skip(f"{path} is absent: {PACKAGE}")
    return path.read_text()


def need_extension(version: int) -> None:
    """Skip unless this server can `create extension pgq`."""
    if version != 15:
        pytest.skip("the extension pgq is for Debian's PostgreSQL 15 only")
    if not EXTENSION.exists():
        pytest.skip(PACKAGE)


_FILL = """
select pgq.create_queue('orders');
select pgq.create_queue('empty');
update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_max_count = 1, queue_per_tx_limit = 100000;
select pgq.register_consumer('orders', c) from unnest(array['done', 'open', 'behind']) as c;
"""


def fill(connection: psycopg.Connection, events: int = 1000) -> None:
    """Create a log with events, ticks, a rotation, three consumers, an open batch and retry events.

    Of five parts of the events `behind` has read none, `open` has opened the first, `done` has read
    three.
    """
    connection.execute(_FILL)
    for part in range(5):
        connection.execute(
            """select pgq.insert_event('orders', 'part', n::text)
               from generate_series(%s::integer, %s::integer) as n""",
            (part * events // 5 + 1, (part + 1) * events // 5),
        )
        connection.execute("select pgq.ticker('orders')")
        if part == 2:
            connection.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    for _ in range(3):
        batch = value(connection, "select pgq.next_batch('orders', 'done')")
        connection.execute("select pgq.finish_batch(%s)", (batch,))
    batch = value(connection, "select pgq.next_batch('orders', 'open')")
    connection.execute(
        "select pgq.event_retry(%s, 2, 0), pgq.event_retry(%s, 3, 3600)", (batch, batch)
    )


def drain(connection: psycopg.Connection, queue_name: str, consumer_name: str) -> Iterator[tuple]:
    """Yield every event up to the newest tick: (ev_id, ev_data, ev_retry) in order."""
    while batch := value(connection, "select pgq.next_batch(%s, %s)", queue_name, consumer_name):
        yield from rows(
            connection, "select ev_id, ev_data, ev_retry from pgq.get_batch_events(%s)", batch
        )
        connection.execute("select pgq.finish_batch(%s)", (batch,))

"""Consuming a log in tests."""

from __future__ import annotations

import psycopg

from support import rows, value


def tick(connection: psycopg.Connection, log: str = "changes") -> int:
    """Tick a log whose settings let it tick at any time."""
    tick_id = value(connection, "select pgq.ticker(%s)", log)
    assert isinstance(tick_id, int)
    return tick_id


def consume_all(
    connection: psycopg.Connection, log: str = "changes", consumer: str = "lake"
) -> list[list[int]]:
    """The ids of each batch up to the last tick."""
    batches = []
    while (batch := value(connection, "select pgq.next_batch(%s, %s)", log, consumer)) is not None:
        batches.append(
            [
                ev_id
                for (ev_id,) in rows(
                    connection, "select ev_id from pgq.get_batch_events(%s)", batch
                )
            ]
        )
        assert value(connection, "select pgq.finish_batch(%s)", batch) == 1
    return batches

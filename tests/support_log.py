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


def open_batch(
    connection: psycopg.Connection,
    events: int = 5,
    *,
    log: str = "changes",
    consumer: str = "lake",
) -> int:
    """Insert events, tick, and open the batch that has them: ids 1 to `events` on a new log."""
    connection.execute(
        "select pgq.insert_event(%s, 't', n::text) from generate_series(1, %s) as n", (log, events)
    )
    tick(connection, log)
    batch = value(connection, "select pgq.next_batch(%s, %s)", log, consumer)
    assert isinstance(batch, int)
    return batch


def finish(connection: psycopg.Connection, batch: int) -> None:
    assert value(connection, "select pgq.finish_batch(%s)", batch) == 1


def move_retries(connection: psycopg.Connection) -> int:
    """Put back what is due, as a daemon does; how many it were."""
    moved = 0
    while count := value(connection, "select pgq.maint_retry_events()"):
        assert isinstance(count, int)
        moved += count
    return moved


def waiting(connection: psycopg.Connection) -> list[int]:
    """The ids in the retry queue."""
    return [
        ev_id for (ev_id,) in rows(connection, "select ev_id from pgq.retry_queue order by ev_id")
    ]

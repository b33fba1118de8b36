"""Helpers for consuming a log in tests."""

from __future__ import annotations

import psycopg

from support import rows, value, wait_until


def tick(connection: psycopg.Connection, log: str = "changes") -> int:
    """Tick a log that may tick at any time."""
    tick_id = value(connection, "select pgq.ticker(%s)", log)
    assert isinstance(tick_id, int)
    return tick_id


def consume_all(
    connection: psycopg.Connection, log: str = "changes", consumer: str = "lake"
) -> list[list[int]]:
    """Finish all batches up to the last tick; return the event ids of each."""
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
    """Insert events, tick, and open their batch: ids 1 to `events` on a new log."""
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
    """Re-insert due events, as a daemon does; return their number."""
    moved = 0
    while count := value(connection, "select pgq.maint_retry_events()"):
        assert isinstance(count, int)
        moved += count
    return moved


def waiting(connection: psycopg.Connection) -> list[int]:
    """Return the ids in the retry queue."""
    return [
        ev_id for (ev_id,) in rows(connection, "select ev_id from pgq.retry_queue order by ev_id")
    ]


def error_of(connection: psycopg.Connection, query: str, *parameters: object) -> tuple[str, str]:
    """Return the SQLSTATE and message of a statement's error."""
    try:
        connection.execute(query, parameters or None)
    except psycopg.Error as error:
        return error.sqlstate or "", error.diag.message_primary or ""
    raise AssertionError(f"no error from {query}")


def give_up(connection: psycopg.Connection, reason: str, consumer: str = "lake") -> None:
    """Mark a consumer's position as lost, as rotation does."""
    connection.execute(
        """
        select pgq._move(s.sub_ledger, jsonb_populate_record(
            pgq._position(s.sub_key, s.sub_ledger), jsonb_build_object('pos_lost', %s::text)))
        from pgq.subscriber as s join pgq.consumer as c on c.co_id = s.sub_consumer
        where c.co_name = %s
        """,
        (reason, consumer),
    )


def coop_next(
    connection: psycopg.Connection, member: str, dead_interval: str | None = None
) -> int | None:
    """Return the next batch of a member of the group `lake`."""
    batch = value(
        connection,
        "select pgq_coop.next_batch('changes', 'lake', %s, %s::interval)",
        member,
        dead_interval,
    )
    assert batch is None or isinstance(batch, int)
    return batch


def ids(connection: psycopg.Connection, batch: int | None) -> list[int]:
    """Return the ids of a batch's events."""
    return [
        ev_id for (ev_id,) in rows(connection, "select ev_id from pgq.get_batch_events(%s)", batch)
    ]


def fall_silent(connection: psycopg.Connection, member: str) -> None:
    """Make a member inactive for an hour."""
    connection.execute(
        """update pgq.subscription as s set sub_active = now() - interval '1 hour'
        from pgq.consumer as c where c.co_id = s.sub_consumer and c.co_name = %s""",
        (f"lake.{member}",),
    )


def delay_event(connection: psycopg.Connection, data: str = "d", *, delay: str = "100 ms") -> None:
    """Insert a delayed event."""
    (answer,) = rows(
        connection,
        "select sluice.insert_event('changes', 't', %s, delay => %s::interval)",
        data,
        delay,
    )
    assert answer == (None,)


def wait_until_due(connection: psycopg.Connection, within: str = "1 minute") -> None:
    """Wait until the events due within a minute are due."""
    wait_until(
        lambda: (
            value(
                connection,
                "select coalesce(max(ev_retry_after) < clock_timestamp(), true) from pgq.retry_entry"
                " where ev_retry_after < now() + %s::interval",
                within,
            )
            is True
        ),
        "the events to be due",
    )


def contents(connection: psycopg.Connection, log: str = "changes") -> list[tuple[int, str]]:
    """Return the id and the data of each event of a log."""
    queue_id = value(connection, "select queue_id from pgq.queue where queue_name = %s", log)
    return rows(connection, f"select ev_id, ev_data from pgq.event_{queue_id} order by ev_id")

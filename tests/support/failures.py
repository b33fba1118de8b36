"""Failing logs and queues in tests: a trigger rejects the writes of maintenance."""

from __future__ import annotations

import psycopg

from support import rows, value, wait_until

MOVE = "select pgq.maint_retry_events()"
FAILURES = "select task, queue_name, group_name, error from sluice.list_failures()"


def delay(connection: psycopg.Connection, *names: str, count: int = 1) -> None:
    """Insert delayed events, and wait until they are due."""
    for name in names:
        connection.execute(
            "select sluice.insert_event(%s, 't', n::text, delay => '10 ms')"
            " from generate_series(1, %s) as n",
            (name, count),
        )
    wait_until(
        lambda: value(
            connection,
            "select not exists (select from pgq.retry_entry where ev_retry_after > clock_timestamp()"
            " and ev_retry_after < clock_timestamp() + interval '1 second')",
        ),
        "the due time",
    )


def move_all(connection: psycopg.Connection, count: int) -> None:
    """Move a number of due events. Their times differ, so one call may move some of them."""
    moved: list[int] = []

    def is_moved() -> bool:
        moved.append(value(connection, MOVE))
        return sum(moved) >= count

    wait_until(is_moved, f"{count} events to be moved")
    assert sum(moved) == count


def add_trigger(connection: psycopg.Connection, table: str, message: str = "no room") -> None:
    connection.execute(
        "create or replace function public.refuse() returns trigger language plpgsql as "
        f"$$ begin raise exception '{message}'; end $$"
    )
    connection.execute(
        f"create trigger refuse before insert or update or delete on {table}"
        " for each row execute function public.refuse()"
    )


def data_of(connection: psycopg.Connection, number: int) -> list[str]:
    return [
        data
        for (data,) in rows(connection, f"select ev_data from pgq.event_{number} order by ev_id")
    ]

"""pgq._postpone_retries: a log that rejects its due events delays no other log."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value, wait_until
from support.failures import (
    FAILURES,
    MOVE,
    add_trigger,
    data_of,
    delay,
    move_all,
)
from support.servers import Database


@pytest.fixture
def database(database_18: Database) -> Database:
    return database_18


def test_log_that_takes_no_retries_stops_none_of_another(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    delay(logs, "broken", "events", "broken")
    add_trigger(logs, "pgq.event_1_0")

    assert value(logs, MOVE) == 1

    assert data_of(logs, 2) == ["1"]
    assert warnings == ["events of event log broken are not retried: no room"]
    assert rows(logs, FAILURES) == [("retry", "broken", None, "no room (P0001)")]
    assert value(logs, "select sluice.count_delayed('broken')") == 2
    assert value(logs, MOVE) == 0
    assert len(warnings) == 1  # the next attempt is not due


def test_retries_of_a_repaired_log_are_moved_once_and_in_their_order(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    delay(logs, "broken", count=3)
    logs.execute("select pgq.insert_event('broken', 't', 'retried')")
    logs.execute("select sluice.log_tick('broken')")
    batch_id = value(logs, "select pgq.next_batch('broken', 'c')")
    logs.execute("select pgq.batch_retry(%s, 0)", (batch_id,))
    add_trigger(logs, "pgq.event_1_0")
    assert value(logs, MOVE) == 0
    assert value(logs, "select count(*) from pgq.retry_queue") == 1

    logs.execute("drop trigger refuse on pgq.event_1_0")
    assert value(logs, MOVE) == 0, "the next attempt is not due"
    logs.execute(
        "update pgq.retry_entry set ev_retry_after = ev_retry_after - interval '9.9 seconds'"
    )
    move_all(logs, 4)  # the next attempt

    assert data_of(logs, 1) == ["retried", "retried", "1", "2", "3"]
    assert value(logs, MOVE) == 0
    assert rows(logs, FAILURES) == []


def test_more_due_retries_of_a_broken_log_than_a_pass_moves_hold_up_no_other_log(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    delay(logs, "broken", count=30)
    delay(logs, "events", count=3)
    add_trigger(logs, "pgq.event_1_0")

    moved = [value(logs, "select pgq._move_retries(10)") for _ in range(3)]

    assert sum(moved) == 3
    assert len(warnings) == 1
    assert value(logs, "select sluice.count_delayed('broken')") == 30


def test_log_without_its_tables_stops_no_retries_of_another(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    delay(logs, "broken", "events")
    logs.execute("drop sequence pgq.event_1_id_seq cascade")

    assert value(logs, MOVE) == 1
    ((task, name, _, error),) = rows(logs, FAILURES)
    assert (task, name) == ("retry", "broken")
    assert "event_1_id_seq" in error


def test_retries_of_a_broken_log_are_kept_while_their_table_is_emptied(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    delay(logs, "broken", count=5)
    logs.execute("update pgq.retry_entry set ev_retry_after = now() + interval '0.2 seconds'")
    assert value(logs, "select pgq._maintain_retry(0, 2)") is True  # copies two of the five
    wait_until(
        lambda: value(logs, "select max(ev_retry_after) < clock_timestamp() from pgq.retry_entry"),
        "the due time",
    )
    add_trigger(logs, "pgq.event_1_0")
    assert value(logs, MOVE) == 0
    assert value(logs, "select sluice.count_delayed('broken')") == 5
    for _ in range(4):
        logs.execute("select pgq._maintain_retry(0, 2)")
    assert value(logs, "select sluice.count_delayed('broken')") == 5
    logs.execute("drop trigger refuse on pgq.event_1_0")
    logs.execute(
        "update pgq.retry_entry set ev_retry_after = ev_retry_after - interval '9.9 seconds'"
    )
    move_all(logs, 5)  # the next attempt
    assert sorted(data_of(logs, 1)) == ["1", "2", "3", "4", "5"]


def test_log_that_takes_no_retries_stops_no_claims_of_another(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    logs.execute("select sluice.create_group('events', 'g')")
    delay(logs, "broken", "events")
    add_trigger(logs, "pgq.event_1_0")

    logs.execute("select sluice.claim('events', 'g')")  # admits the due events

    assert rows(logs, "select ev_data from sluice.claim('events', 'g')") == [("1",)]

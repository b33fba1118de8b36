"""Queues and logs with missing tables or invalid names are skipped and reported."""

from __future__ import annotations

import json

import psycopg
import pytest
from click.testing import CliRunner

from pgsluice import schema
from pgsluice.cli.main import cli
from support import rows, value
from support.queue_options import set_queue_options
from support.servers import Database

BAD_NAME = "it's $5"


@pytest.fixture
def warnings(connection: psycopg.Connection) -> list[str]:
    """Create a valid and two broken queues; return a list that collects later warnings."""
    for name in ("orders", "gone"):
        connection.execute("select pgmq.create(%s)", (name,))
    connection.execute("drop table pgmq.q_gone")
    connection.execute(
        "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values (%s, false, false)",
        (BAD_NAME,),
    )
    found: list[str] = []
    connection.add_notice_handler(
        lambda d: found.append(d.message_primary or "") if d.severity == "WARNING" else None
    )
    return found


def test_queue_is_created_and_dropped_despite_a_bad_row(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute("select pgmq.create('new')")
    connection.execute("select pgmq.create_partitioned('parts', '1 day', '7 days')")
    connection.execute("select pgmq.create('gone')")  # recreates the missing table
    assert value(connection, "select pgmq.drop_queue('orders')") is True
    with pytest.raises(psycopg.Error, match="would share its table"):
        connection.execute("select pgmq.create('NEW')")


def test_settings_of_a_queue_are_changed_despite_a_bad_row(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    set_queue_options(connection, "orders", deduplication_window="5 minutes")
    set_queue_options(connection, "orders", archive_retention="1 day")
    set_queue_options(connection, "orders", max_attempts=3)
    connection.execute("select pgmq.convert_archive_partitioned('orders', '1 day', '7 days')")


def test_all_queues_are_listed_despite_a_bad_row(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    assert rows(connection, "select queue_name from pgmq.metrics_all()") == [("orders",)]
    assert [w.split(":")[0] for w in warnings] == [
        "queue gone skipped",
        f"queue {BAD_NAME} skipped",
    ]
    names = [("gone",), (BAD_NAME,), ("orders",)]
    assert rows(connection, "select queue_name from sluice.notifier_queues()") == [("orders",)]
    for function in ("pgmq.list_queues", "sluice.queue_options"):
        found = rows(connection, f"select queue_name from {function}()")
        assert sorted(found) == sorted(names), function


def test_fifo_indexes_are_created_despite_a_bad_row(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute("select pgmq.create_fifo_indexes_all()")

    assert [w.split(":")[0] for w in warnings] == [
        "queue gone skipped",
        f"queue {BAD_NAME} skipped",
    ]
    assert value(connection, "select to_regclass('pgmq.q_orders_fifo_read_idx') is not null")


def test_queues_are_maintained_despite_a_bad_row(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute(
        "insert into sluice.queue_settings (queue_name, archive_retention) values (%s, '1 day')",
        (BAD_NAME,),
    )
    set_queue_options(connection, "orders", archive_retention="1 day")
    connection.execute(
        "insert into pgmq.a_orders (msg_id, archived_at, vt) values (1, '2020-01-01', now())"
    )

    steps = rows(connection, "select queue_name, done from sluice.maintain()")

    assert sorted(steps) == [(BAD_NAME, False), ("orders", True)]


def test_installation_skips_a_bad_row_and_names_it(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute(
        "drop function pgmq.q_orders(timestamptz, interval, integer, jsonb, boolean)"
    )

    schema.install(connection)

    assert [w for w in warnings if BAD_NAME in w and "is not brought to this release" in w]
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")
    assert value(connection, "select count(*) from pgmq.read('orders', 30, 1)") == 1


@pytest.mark.slow
def test_verify_names_bad_rows(connection: psycopg.Connection, warnings: list[str]) -> None:
    assert list(schema.verify(connection)) == [
        "-queue 'gone': its table pgmq.q_gone is missing, with its messages; create it anew, empty, "
        "with: pgsluice queue create gone",
        f"-queue {BAD_NAME!r}: its name contains invalid characters: $, ;, --, or '; "
        "rename its tables and its row in pgmq.meta; or delete the row, with which its topic bindings and settings go: tables stay",
    ]
    connection.execute("select pgmq.create('gone')")
    connection.execute("delete from pgmq.meta where queue_name = %s", (BAD_NAME,))
    assert schema.verify(connection) == ()


def test_status_names_broken_queues_and_logs(
    database: Database, connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute("select pgq.create_queue('events'), pgq.create_queue('broken')")
    connection.execute("select pgq.create_queue('lacking')")
    connection.execute("drop sequence pgq.event_2_id_seq cascade")
    connection.execute("drop function pgq.tick_3_last()")
    found = CliRunner().invoke(cli, ["status", "--json", "--dsn", database.url])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["logs"] == ["events", "lacking"]
    problems = json.loads(found.stdout)["problems"]
    assert [line.split(";")[0] for line in problems] == [
        "log 'broken': its sequence pgq.event_2_id_seq is missing",
        "log 'lacking': its function pgq.tick_3_last is missing",
        "queue 'gone': its table pgmq.q_gone is missing, with its messages",
        f"queue {BAD_NAME!r}: its name contains invalid characters: $, ",
    ]
    text = CliRunner().invoke(cli, ["status", "--dsn", database.url])
    assert "pgq.event_2_id_seq" in text.output


def test_log_that_fails_is_left_out_of_the_list_and_named(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute("select pgq.create_queue('broken'), pgq.create_queue('events')")
    connection.execute("drop sequence pgq.event_1_id_seq cascade")
    assert rows(connection, "select queue_name from pgq.get_queue_info()") == [("events",)]
    assert [w.split(":")[0] for w in warnings] == ["event log broken skipped"]
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select * from pgq.get_queue_info('broken')")


def test_log_that_fails_stops_no_waking_of_groups_of_another(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    for name in ("broken", "events"):
        connection.execute("select pgq.create_queue(%s)", (name,))
        connection.execute("select sluice.create_group(%s, 'g')", (name,))
        connection.execute("select pgq.insert_event(%s, 't', 'd')", (name,))
    connection.execute("select sluice.tick()")
    connection.execute("select pgq.insert_event('events', 't', 'd')")
    connection.execute("drop sequence pgq.event_1_id_seq cascade")
    woken = "select current_setting('sluice.woken_2')"
    before = value(connection, woken)

    assert value(connection, "select sluice.wake_groups()") == 2
    assert value(connection, woken) != before


def test_queue_that_fails_stops_no_waking_of_listeners_of_another(
    connection: psycopg.Connection, warnings: list[str]
) -> None:
    connection.execute("select pgmq.create('broken')")
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")
    connection.execute("alter table pgmq.q_broken rename column enqueued_at to away")
    look = (
        "select queue_name, first_ready from sluice.notifier_poll("
        "array['broken', 'orders'], '{}'::bigint[], '{}'::timestamptz[])"
    )

    assert rows(connection, look) == [("orders", 1)]
    assert [w.split(":")[0] for w in warnings] == ["listeners of queue broken are not woken"]

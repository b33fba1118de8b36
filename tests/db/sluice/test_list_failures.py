"""sluice.list_failures: a failing log, queue, group or step is skipped and listed."""

from __future__ import annotations

import json
import logging

import psycopg
import pytest
from click.testing import CliRunner
from psycopg_pool import ConnectionPool

from pgsluice.cli.main import cli
from pgsluice.worker.upkeep.maintenance import Maintenance
from support import rows
from support.failures import (
    FAILURES,
    add_trigger,
    delay,
)
from support.queue_options import set_queue_options
from support.servers import Database


@pytest.fixture
def database(database_18: Database) -> Database:
    return database_18


def test_step_of_maintenance_that_fails_stops_no_other_and_is_named(
    connection: psycopg.Connection,
) -> None:
    connection.execute("select pgmq.create('orders')")
    set_queue_options(connection, "orders", archive_retention="1 day")
    connection.execute(
        "insert into pgmq.a_orders (msg_id, archived_at, vt) values (1, '2020-01-01', now())"
    )
    connection.execute("alter table sluice.schedule rename to away")
    connection.execute("alter table sluice.idempotency_key rename to away_too")

    steps = rows(connection, "select task, queue_name, done from sluice.maintain()")

    assert steps == [
        ("schedules", None, False),
        ("retention", "orders", True),
        ("keys", None, False),
    ]
    failures = {task: error for task, _, _, error in rows(connection, FAILURES)}
    assert set(failures) == {"schedules", "keys"}
    assert failures["keys"] == 'relation "sluice.idempotency_key" does not exist (42P01)'

    connection.execute("alter table sluice.away rename to schedule")
    connection.execute("alter table sluice.away_too rename to idempotency_key")
    assert rows(connection, "select * from sluice.maintain()") == []
    assert rows(connection, FAILURES) == []


def test_archive_that_refuses_deletes_stops_no_retention_of_another(
    connection: psycopg.Connection,
) -> None:
    for name in ("broken", "orders"):
        connection.execute("select pgmq.create(%s)", (name,))
        set_queue_options(connection, name, archive_retention="1 day")
        connection.execute(
            f"insert into pgmq.a_{name} (msg_id, archived_at, vt) values (1, '2020-01-01', now())"
        )
    add_trigger(connection, "pgmq.a_broken")

    steps = rows(connection, "select queue_name, done, detail from sluice.maintain()")

    assert sorted(steps) == [
        ("broken", False, "no room"),
        ("orders", True, "1 archived messages deleted"),
    ]
    assert rows(connection, FAILURES) == [("retention", "broken", None, "no room (P0001)")]


def test_processes_run_the_other_steps_when_one_fails(
    database: Database,
    logs: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    delay(logs, "broken", "events")
    add_trigger(logs, "pgq.event_1_0")
    logs.execute("alter function sluice.maintain_groups(text) rename to away")
    done = []
    with ConnectionPool(database.url, min_size=1, max_size=1, open=True) as pool:
        maintenance = Maintenance(pool, report=done.append)
        with caplog.at_level(logging.WARNING):
            left = maintenance.run_once()
            again = maintenance.run_once()

    assert [(step.task, step.queue_name) for step in left] == [
        ("retry", "broken"),
        ("groups", None),
        ("rotate", None),  # calls maintain_groups
    ]
    assert again == left
    assert [(step.task, step.detail) for step in done] == [("retry", "1 event redelivered")]
    failed = "maintenance step failed task="
    assert caplog.text.count(f"{failed}retry queue=broken error='no room (P0001)'") == 1
    assert caplog.text.count(f"{failed}groups queue=-") == 1


def test_log_that_cannot_be_repaired_after_a_restore_stops_no_repair_of_another(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    logs.execute("select pgq.insert_event('events', 't', 'd')")
    logs.execute("update pgq.origin set made_by = '0'")  # as after restoring a dump
    logs.execute("alter function pgq.tick_1_last() rename to away")
    restored = "select queue_name from pgq.queue where pgq._is_restored(queue_id) order by 1"
    assert rows(logs, restored) == [("broken",), ("events",)]

    found = rows(logs, "select log_name, events is null from sluice.after_restore()")

    assert found == [("broken", True), ("events", False)]
    assert rows(logs, restored) == [("broken",)]
    assert [w.split(":")[0] for w in warnings] == ["event log broken is not repaired"]
    ((task, name, _, error),) = rows(logs, FAILURES)
    assert (task, name) == ("repair", "broken")
    assert "tick_1_last" in error
    with pytest.raises(psycopg.errors.UndefinedFunction):
        logs.execute("select sluice.after_restore('broken')")

    logs.execute("alter function pgq.away() rename to tick_1_last")
    assert rows(logs, "select log_name from sluice.after_restore()") == [("broken",)]
    assert rows(logs, restored) == []
    assert rows(logs, FAILURES) == []


def test_retries_that_cannot_be_repaired_after_a_restore_stop_no_repair_of_a_log(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    logs.execute("update pgq.origin set made_by = '0'")
    logs.execute("alter function pgq._is_ahead(pg_snapshot) rename to away")
    logs.execute(
        "create function pgq._is_ahead(pg_snapshot) returns boolean language sql as 'select false'"
    )
    logs.execute("alter table pgq.retry_pass rename to away")

    found = rows(logs, "select log_name from sluice.after_restore()")

    assert found == [("broken",), ("events",), (None,)]
    assert [w.split(":")[0] for w in warnings] == ["retried and delayed events are not repaired"]


def test_status_lists_failures_of_the_last_attempt(
    database: Database, logs: psycopg.Connection, warnings: list[str]
) -> None:
    logs.execute("update pgq.queue set queue_switch_time = '2000-01-01'")
    logs.execute("select sluice.create_group('broken', 'g')")
    logs.execute("select pgq.insert_event('broken', 't', 'd')")
    logs.execute("select sluice.claim('broken', 'g', lease => '1 microsecond')")
    logs.execute("alter function pgq.event_1_any(pg_snapshot, pg_snapshot) rename to away")
    logs.execute("alter function pgq.tick_1_last() rename to away")
    logs.execute("select sluice.tick()")
    logs.execute("select sluice.rotate()")

    failures = {(task, name, group) for task, name, group, _ in rows(logs, FAILURES)}
    assert failures >= {("tick", "broken", None), ("rotate", "broken", None)}
    found = CliRunner().invoke(cli, ["status", "--json", "--dsn", database.url])
    assert found.exit_code == 0, found.output
    lines = json.loads(found.stdout)["failures"]
    assert [line.split(":")[0] for line in lines] == sorted(
        f"{task} of '{name}'" + ("" if group is None else f", group '{group}'")
        for task, name, group in failures
    )
    assert all("tick_1_last" in line for line in lines if line.startswith(("tick", "rotate")))

    logs.execute("alter function pgq.away() rename to tick_1_last")
    logs.execute("alter function pgq.away(pg_snapshot, pg_snapshot) rename to event_1_any")
    logs.execute("select sluice.tick()")
    logs.execute("select sluice.rotate()")
    assert rows(logs, FAILURES) == []


def test_status_reports_missing_privilege_on_failures(
    database: Database, connection: psycopg.Connection
) -> None:
    dsn = f"{database.url}{'&' if '?' in database.url else '?'}options=-crole%3Dsluice_monitor"
    found = CliRunner().invoke(cli, ["status", "--json", "--dsn", dsn])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["failures"] == [
        "this role cannot read failures; grant it the role sluice_admin"
    ]

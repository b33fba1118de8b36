"""Checks of the schema, budgets and rights: what the doctor does where it cannot see."""

from __future__ import annotations

import os
import signal
import sys
import time

import psycopg
import pytest

from pgsluice import schema
from pgsluice.ops.doctor import CHECKS, Thresholds, diagnose
from pgsluice.ops.doctor.diagnosis import _run
from pgsluice.ops.doctor.findings import Check
from pgsluice.ops.doctor.probe import Probe
from pgsluice.schema import texts
from support import rows, value, wait_until
from support.doctor import QUIET, Doctor, seen
from support.processes import running

NAMES = [check.name for check in CHECKS]


@pytest.mark.slow
def test_missing_schema_is_reported_until_it_is_installed(empty_database):
    doctor = Doctor(empty_database.url)

    statuses = doctor.statuses()

    assert list(statuses) == NAMES
    assert statuses.pop("schema") == "fail"
    assert set(statuses.values()) == {"ok", "unknown"}
    found = doctor.finding("schema")
    assert found.commands == ("pgsluice schema install",)
    doctor.run(found)
    assert set(doctor.statuses().values()) == {"ok"}


def test_tables_without_functions_are_healthy(empty_database):
    with empty_database.connect() as connection:
        schema.install_tables(connection)

    statuses = Doctor(empty_database.url).statuses()

    assert set(statuses.values()) == {"ok"}


@pytest.mark.slow
def test_older_schema_is_reported_until_it_is_upgraded(doctor, monkeypatch):
    assert seen(doctor.finding("schema")) == QUIET
    released = texts.migrations()
    later = schema.Migration("sluice/0001_later", "create table sluice.later ()", "checksum", None)
    monkeypatch.setattr(texts, "migrations", lambda **_: [*released, later])

    found = doctor.finding("schema")

    assert (found.status, found.commands) == ("fail", ("pgsluice schema upgrade",))
    assert "older than this release" in found.what
    doctor.run(found)
    assert seen(doctor.finding("schema")) == QUIET


@pytest.mark.parametrize(("breaking", "status"), [(None, "warn"), ("renames a column", "fail")])
def test_newer_schema_is_reported(doctor, connection, breaking, status):
    connection.execute(
        "insert into sluice.migration (version, checksum, breaking) values ('sluice/9999_later', 'x', %s)",
        (breaking,),
    )

    found = doctor.finding("schema")

    assert found.status == status
    assert "newer than" in found.what
    assert "sluice/9999_later" in found.what
    assert found.commands == ("pip install --upgrade pgsluice",)


@pytest.mark.slow
def test_missing_function_is_reported_until_the_schema_is_upgraded(doctor, connection):
    assert seen(doctor.finding("objects")) == QUIET
    connection.execute("drop function sluice.ping_listener()")

    found = doctor.finding("objects")

    assert (found.status, found.commands) == ("fail", ("pgsluice schema upgrade",))
    assert found.what == "functions of this release are missing (1): sluice.ping_listener()"
    doctor.run(found)
    assert seen(doctor.finding("objects")) == QUIET


def test_missing_table_of_a_queue_is_reported(doctor, connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("drop table pgmq.q_orders")

    found = doctor.finding("objects")

    assert found.status == "fail"
    assert "queue 'orders': its table pgmq.q_orders is missing" in found.what
    assert set(doctor.statuses().values()) <= {"ok", "fail", "unknown"}


def test_invalid_index_is_reported_until_it_is_rebuilt(doctor, connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', '{1, 2}')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("create unique index concurrently mine on pgmq.q_orders (read_ct)")

    found = doctor.finding("objects")

    assert (found.status, found.commands) == ("warn", ("reindex index concurrently pgmq.mine",))
    connection.execute("select pgmq.purge_queue('orders')")
    doctor.run(found)
    assert seen(doctor.finding("objects")) == QUIET


def test_function_of_another_role_in_our_schemas_is_reported(doctor, connection):
    connection.execute("create function sluice.mine() returns integer language sql as 'select 1'")
    assert seen(doctor.finding("objects")) == QUIET
    connection.execute("create role doctor_other")
    try:
        connection.execute("alter function sluice.mine() owner to doctor_other")
        found = doctor.finding("objects")
        connection.execute("drop function sluice.mine()")
    finally:
        connection.execute("drop owned by doctor_other")
        connection.execute("drop role doctor_other")

    assert found.status == "warn"
    assert "sluice.mine()" in found.what
    assert seen(doctor.finding("objects")) == QUIET


def test_role_with_sluice_monitor_sees_most_and_the_rest_is_named(doctor, connection, database_18):
    for statement in (
        "select pgmq.create('orders'), pgmq.send('orders', '{}')",
        "select pgq.create_queue('changes'), pgq.register_consumer('changes', 'lake')",
        "select pgmq.create_partitioned('by_id', '100', '1000')",
        "create role doctor_monitor login in role sluice_monitor",
    ):
        connection.execute(statement)
    try:
        url = database_18.url.replace("postgres@", "doctor_monitor@")
        statuses = Doctor(url).statuses()
        with psycopg.connect(url, autocommit=True) as watching:
            hidden = {f.check: f.what for f in diagnose(watching) if f.status == "unknown"}
    finally:
        connection.execute("drop role doctor_monitor")
    assert list(statuses) == NAMES
    assert set(statuses.values()) == {"ok", "unknown"}
    assert set(hidden) == {
        *("idle_in_transaction", "dead_letters", "failures", "parked_group_keys"),
    }
    assert hidden["dead_letters"] == (
        "permission denied for table dead_letter; to see it, connect as a member of sluice_admin and pg_monitor"
    )


def test_check_that_waits_for_a_lock_is_unknown_within_its_budget(doctor, connection, database_18):
    with database_18.connect(autocommit=False) as holder:
        holder.execute("lock table sluice.dead_letter in access exclusive mode")
        began_s = time.monotonic()
        found = doctor.finding("dead_letters")
        assert time.monotonic() - began_s < 3
    assert found.status == "unknown"
    assert seen(doctor.finding("dead_letters")) == QUIET


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("select pg_sleep(60)", "it needs longer than 0.3 s"),
        ("select 1/0", "DivisionByZero: division by zero"),
        ("select from nowhere", 'incomplete: relation "nowhere" does not exist'),
    ],
)
def test_error_of_a_check_is_a_finding(connection, work, reason):
    check = Check("broken", "why", "all clear", lambda probe: probe.fetch_text(work))

    found = _run(check, Probe(connection, Thresholds(), 0.3))

    assert found.status == "unknown"
    assert reason in found.what
    assert value(connection, "show statement_timeout") == "0"


@pytest.mark.slow
def test_server_that_stops_answering_is_reported_within_the_budget(small_doctor, small_server):
    with psycopg.connect(small_doctor.url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            began_s = time.monotonic()
            findings = list(diagnose(connection, budget_s=0.2))
            assert time.monotonic() - began_s < 5
        finally:
            os.kill(pid, signal.SIGCONT)
    assert [each.check for each in findings] == NAMES
    assert {each.status for each in findings} == {"unknown"}


def test_checks_write_nothing(doctor, connection):
    connection.execute("select pgmq.create('orders'), pgmq.send('orders', '{}')")
    [(before,)] = rows(connection, "select txid_current()")
    doctor.statuses()
    [(after,)] = rows(connection, "select txid_current()")

    assert after == before + 1  # only this test has had a transaction id


@pytest.mark.slow
def test_running_system_is_healthy(doctor, connection, database_18, tmp_path):
    """A worker with its maintenance, a log with a consumer, limits, schedules, retention and partitions."""
    (tmp_path / "shop.py").write_text(
        "from pgsluice.worker import App\n"
        "app = App(name='shop')\n"
        "@app.handler('orders')\n"
        "def handle(message: dict) -> None: pass\n"
        "@app.handler('mail')\n"
        "def mail(message: dict) -> None: pass\n"
    )
    for statement in (
        "select pgmq.create('orders'), pgmq.create('mail'), pgmq.create_unlogged('sessions')",
        "select pgmq.create_partitioned('by_id', '100', '1000')",
        "select pgq.create_queue('changes'), pgq.register_consumer('changes', 'lake')",
        "select sluice.create_group('changes', 'mail')",
        """select sluice.set_queue_options(
            'orders', '{"archive_retention": "1 day", "deduplication_window": "1 hour"}')""",
        "select sluice.set_queue_options('mail', '{\"key_concurrency\": 1}')",
        "select pgmq.enable_notify_insert('sessions')",
        "select sluice.schedule('often', 'orders', '{}', every => '1 second')",
        """select count(*) from pgmq.send_batch('orders', array_fill('{}'::jsonb, '{500}'),
            array_fill('{"x-pgmq-group": "a"}'::jsonb, '{500}'))""",
        "select pgmq.send('by_id', '{}'), pgmq.send('sessions', '{}', 600)",
        "select pgq.insert_event('changes', 't', '1')",
    ):
        connection.execute(statement)
    command = [sys.executable, "-m", "pgsluice", "worker", "run", "shop:app"]
    with running(command, tmp_path, PGSLUICE_DSN=database_18.url):
        wait_until(
            lambda: value(connection, "select count(*) from pgmq.q_orders") == 0, "the worker", 60
        )
        with psycopg.connect(database_18.url, autocommit=True) as session:
            findings = list(diagnose(session))
    assert {each.check: each.what for each in findings if each.status != "ok"} == {}

"""Checks of the server: each cause is made to happen, reported, and gone after the printed command."""

from __future__ import annotations

import contextlib
import threading

import psycopg
import pytest

from pgsluice import schema
from pgsluice.cli.main import main
from pgsluice.embedded import EmbeddedServer
from support import value, wait_until
from support.doctor import QUIET, Doctor, seen
from support.pooler import pooling
from support.splitter import splitting
from support.standby import follow, remove


def test_idle_transaction_is_reported_until_its_session_is_terminated(doctor, database_18):
    with database_18.connect(autocommit=False, application_name="forgotten") as idle:
        idle.execute("select 1")
        assert seen(doctor.finding("idle_in_transaction")) == QUIET
        found = doctor.finding("idle_in_transaction", idle_in_transaction_s=0)
        assert found.status == "warn"
        assert f"pid {idle.info.backend_pid}, role postgres, application 'forgotten'" in found.what
        assert found.commands == (f"select pg_terminate_backend({idle.info.backend_pid})",)
        assert not found.is_fixable
        doctor.run(found)
        with contextlib.suppress(psycopg.OperationalError):
            idle.execute("select 1")

    assert seen(doctor.finding("idle_in_transaction", idle_in_transaction_s=0)) == QUIET


def test_idle_session_without_a_transaction_is_not_reported(doctor, database_18):
    with database_18.connect() as idle:
        idle.execute("select 1")
        assert seen(doctor.finding("idle_in_transaction", idle_in_transaction_s=0)) == QUIET


def in_background(session, statement):
    def run():
        with contextlib.suppress(psycopg.Error):
            session.execute(statement)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for_statement(connection, session):
    wait_until(
        lambda: (
            value(
                connection,
                "select state = 'active' and backend_xmin is not null from pg_stat_activity where pid = %s",
                session.info.backend_pid,
            )
            is True
        ),
        "the statement to run",
    )


def test_held_snapshot_is_reported_until_its_session_is_terminated(doctor, database_18, connection):
    with database_18.connect(application_name="report") as session:
        thread = in_background(session, "select pg_sleep(60)")
        wait_for_statement(connection, session)
        assert seen(doctor.finding("snapshots")) == QUIET
        found = doctor.finding("snapshots", snapshot_s=0)
        assert found.status == "warn"
        assert f"pid {session.info.backend_pid}, role postgres, application 'report'" in found.what
        doctor.run(found)
        thread.join(10)

    assert seen(doctor.finding("snapshots", snapshot_s=0)) == QUIET


@pytest.mark.slow
def test_snapshot_of_a_replication_slot_is_reported_until_the_slot_is_dropped(
    small_doctor, small_database
):
    with small_database.connect() as connection:
        connection.execute("select pg_create_physical_replication_slot('gone', true)")
        try:
            assert seen(small_doctor.finding("replication_slots")) == QUIET
            connection.execute("create table filler as select generate_series(1, 1000)")
            found = small_doctor.finding("replication_slots", slot_bytes=0)
            assert found.status == "warn"
            assert "'gone' is inactive and keeps" in found.what
            small_doctor.run(found)
        finally:
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            )

    assert seen(small_doctor.finding("replication_slots", slot_bytes=0)) == QUIET


@pytest.mark.slow
def test_old_prepared_transaction_is_reported_until_it_is_rolled_back(small_doctor, small_database):
    with small_database.connect() as connection:
        connection.execute("begin; create table t (); prepare transaction 'it''s old'")
    assert seen(small_doctor.finding("prepared_transactions")) == QUIET

    found = small_doctor.finding("prepared_transactions", prepared_s=0)

    assert found.status == "warn"
    assert "'it''s old' of role postgres has been prepared for" in found.what
    small_doctor.run(found)
    assert seen(small_doctor.finding("prepared_transactions", prepared_s=0)) == QUIET


@pytest.mark.slow
def test_unfrozen_transaction_ids_are_reported_until_vacuum_freezes(small_doctor, small_database):
    assert seen(small_doctor.finding("transaction_ids")) == QUIET
    with small_database.connect() as connection:
        with small_database.connect(autocommit=False) as holder:
            holder.execute("select pg_current_xact_id()")
            connection.execute(
                "do $$ begin for i in 1..170000 loop perform pg_current_xact_id(); commit; end loop; end $$"
            )
            found = small_doctor.finding("transaction_ids")
            assert found.status == "warn"
            assert "autovacuum should freeze at 100000" in found.what
        small_doctor.run(found)

    assert seen(small_doctor.finding("transaction_ids")) == QUIET


@pytest.mark.slow
def test_autovacuum_that_is_off_is_reported_until_it_is_on(small_doctor, small_database):
    assert seen(small_doctor.finding("autovacuum")) == QUIET
    with small_database.connect() as connection:
        connection.execute("alter system set autovacuum = off")
        connection.execute("select pg_reload_conf()")
    wait_until(lambda: small_doctor.finding("autovacuum").status == "fail", "autovacuum to be off")

    small_doctor.run(small_doctor.finding("autovacuum"))

    wait_until(lambda: seen(small_doctor.finding("autovacuum")) == QUIET, "autovacuum to be on")


def test_dead_rows_are_reported_until_they_are_vacuumed(doctor, connection, database_18):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[2000]))")
    assert seen(doctor.finding("dead_rows", dead_rows=1000, vacuum_s=0)) == QUIET
    with database_18.connect(autocommit=False) as holder:
        holder.execute("select pg_current_xact_id(), 1")
        connection.execute("select count(*) from pgmq.read('orders', 30, 2000)")
        connection.execute("select pg_stat_force_next_flush()")
        wait_until(
            lambda: doctor.finding("dead_rows", dead_rows=1000, vacuum_s=0).status == "warn",
            "dead rows to be counted",
        )
        found = doctor.finding("dead_rows", dead_rows=1000, vacuum_s=0)
        assert "table pgmq.q_orders has 2000 dead rows" in found.what
        assert seen(doctor.finding("dead_rows")) == QUIET

    assert doctor.repair(found) == ["vacuum (analyze, skip_locked) pgmq.q_orders"]
    wait_until(
        lambda: seen(doctor.finding("dead_rows", dead_rows=1000, vacuum_s=0)) == QUIET,
        "no dead rows to be counted",
    )


@pytest.mark.slow
def test_used_connections_are_reported_while_they_are_used(small_doctor, small_database):
    assert seen(small_doctor.finding("connections")) == QUIET
    with contextlib.ExitStack() as stack:
        for _ in range(17):
            stack.enter_context(small_database.connect())
        found = small_doctor.finding("connections")
        assert found.status == "warn"
        assert found.what == "17 of 20 connections of the server are in use"
        assert found.commands == (
            "alter system set max_connections = 40  -- then restart the server",
        )

    wait_until(
        lambda: seen(small_doctor.finding("connections")) == QUIET, "the connections to close"
    )


def await_end_of_sessions(connection, role):
    # A server notices that a client has closed its connection a moment later.
    sessions = "select count(*) from pg_stat_activity where usename = %s"
    wait_until(lambda: value(connection, sessions, role) == 0, f"the sessions of {role} to end")


def test_connection_limit_of_a_role_is_reported_until_it_is_raised(doctor, database_18, connection):
    connection.execute("create role doctor_limited login connection limit 1")
    try:
        url = database_18.url.replace("postgres@", "doctor_limited@")
        assert seen(doctor.finding("connections", url=url)) == QUIET
        await_end_of_sessions(connection, "doctor_limited")
        connection.execute("alter role doctor_limited connection limit 2")
        with psycopg.connect(url):
            # Its own connection is not counted.
            found = doctor.finding("connections", url=url, connections=0.5)
        assert found.what == "1 of 2 connections of the role are in use"
        assert found.commands == ('alter role "doctor_limited" connection limit 4',)
        doctor.run(found)
        await_end_of_sessions(connection, "doctor_limited")
        with psycopg.connect(url):
            assert seen(doctor.finding("connections", url=url, connections=0.5)) == QUIET
    finally:
        connection.execute("drop role doctor_limited")


def test_slow_count_of_a_queue_is_reported_until_it_is_cancelled(doctor, database_18, connection):
    connection.execute("select pgmq.create('orders'), pgmq.send('orders', '1')")
    with database_18.connect() as counting:
        thread = in_background(counting, "select count(*), pg_sleep(60) from pgmq.q_orders")
        wait_for_statement(connection, counting)
        found = doctor.finding("slow_counts", count_s=0)
        assert found.status == "warn"
        assert found.commands == (f"select pg_cancel_backend({counting.info.backend_pid})",)
        assert seen(doctor.finding("slow_counts")) == QUIET
        doctor.run(found)
        thread.join(10)

        thread = in_background(counting, "select pg_sleep(60) from pgmq.q_orders")
        wait_for_statement(connection, counting)
        assert seen(doctor.finding("slow_counts", count_s=0)) == QUIET
        connection.execute("select pg_cancel_backend(%s)", (counting.info.backend_pid,))
        thread.join(10)


def test_history_of_pg_cron_is_reported_until_it_is_truncated(doctor, connection):
    assert seen(doctor.finding("cron_history", cron_bytes=0)) == QUIET
    connection.execute("create schema cron")
    connection.execute(
        "create table cron.job_run_details as select n as runid, repeat('x', 500) as command from generate_series(1, 2000) as n"
    )
    assert seen(doctor.finding("cron_history")) == QUIET

    found = doctor.finding("cron_history", cron_bytes=500_000)

    assert found.status == "warn"
    assert not found.is_fixable
    doctor.run(found)
    assert seen(doctor.finding("cron_history", cron_bytes=500_000)) == QUIET


@pytest.mark.slow
def test_full_queue_of_notifications_is_reported_until_its_listener_ends(
    small_doctor, small_database
):
    with small_database.connect() as connection, small_database.connect() as listener:
        listener.execute("listen news")
        connection.execute(
            "select pg_notify('news', repeat('x', 7900) || n) from generate_series(1, 20) as n"
        )
        list(listener.notifies(timeout=0))
        assert seen(small_doctor.finding("notifications")) == QUIET
        listener.execute("begin")
        connection.execute(
            "select pg_notify('news', repeat('x', 7900) || n) from generate_series(1, 20) as n"
        )
        found = small_doctor.finding("notifications")
        assert found.status == "warn"
        assert found.commands == (f"select pg_terminate_backend({listener.info.backend_pid})",)
        small_doctor.run(found)
        with contextlib.suppress(psycopg.OperationalError):
            listener.execute("select 1")
        connection.execute("select pg_notify('news', '')")  # advances the tail of the queue

    wait_until(lambda: seen(small_doctor.finding("notifications")) == QUIET, "an empty queue")


@pytest.mark.slow
def test_pooler_in_transaction_mode_is_reported_and_a_direct_connection_is_not(
    doctor, database_18, servers_folder
):
    assert seen(doctor.finding("pooler")) == QUIET
    with pooling(database_18.url, servers_folder) as pooled:
        found = doctor.finding("pooler", url=pooled)
        assert found.status == "warn"
        assert "a pooler is in between" in found.what
        assert set(Doctor(pooled).statuses().values()) == {"ok", "warn"}


@pytest.mark.slow
def test_pooler_in_session_mode_is_not_reported(doctor, database_18, servers_folder):
    with pooling(database_18.url, servers_folder, mode="session") as pooled:
        assert seen(doctor.finding("pooler", url=pooled)) == QUIET


@pytest.mark.slow
def test_standby_and_a_pooler_that_reads_from_it_are_reported_and_the_primary_is_not(
    servers_folder, capsys,
):  # fmt: skip
    primary = EmbeddedServer(
        servers_folder / "doctor-primary", version=18, options={"fsync": "off"}
    )
    standby = EmbeddedServer(
        servers_folder / "doctor-standby", version=18, options={"fsync": "off"}
    )
    try:
        primary.start()
        with psycopg.connect(primary.url()) as connection:
            schema.install(connection)
            connection.execute("select pgmq.create('orders')")
        follow(primary, standby)
        found = Doctor(standby.url()).finding("writable")
        assert (found.status, found.what) == (
            "fail",
            "the server is a standby, and refuses writes",
        )
        assert seen(Doctor(primary.url()).finding("writable")) == QUIET
        assert set(Doctor(standby.url()).statuses().values()) <= {"ok", "fail", "unknown"}

        with splitting(primary.url(), standby.url()) as split:
            found = Doctor(split).finding("writable")
        assert (found.status, found.what) == (
            "fail",
            "a statement alone reaches a standby, and a transaction the primary: a pooler splits reads from writes",
        )
        for url, cause in ((standby.url(), "is a standby"), (split, "reaches a standby")):
            with pytest.raises(SystemExit):
                main(["explain", "queue", "orders", "--dsn", url])
            assert cause in capsys.readouterr().out
    finally:
        remove(standby, primary)


def test_read_only_default_is_reported_until_it_is_reset(doctor, connection, database_18):
    connection.execute(
        f'alter role postgres in database "{database_18.name}" set default_transaction_read_only = on'
    )
    found = doctor.finding("writable")
    assert (found.status, found.what) == (
        "fail",
        "transactions of role postgres are read-only by default",
    )
    with connection.transaction():
        connection.execute("set transaction read write")
        connection.execute(found.commands[0].encode())

    assert seen(doctor.finding("writable")) == QUIET


@pytest.mark.slow
@pytest.mark.parametrize(("step_s", "side"), [(60.0, "ahead of"), (-60.0, "behind")])
def test_clock_of_the_server_that_differs_is_reported_until_it_is_set(
    clock_database, clock, step_s, side
):
    shifted = Doctor(clock_database.url)
    assert seen(shifted.finding("clock")) == QUIET
    clock.set(step_s)
    found = shifted.finding("clock")
    assert found.status == "warn"
    assert f"s {side} this machine's" in found.what
    clock.set(0)
    assert seen(shifted.finding("clock")) == QUIET


def test_rows_of_pg_stat_activity_hidden_from_a_role_are_named(doctor, database_18, server_18):
    with psycopg.connect(server_18.url(), autocommit=True) as admin:
        admin.execute("create role doctor_watch login in role sluice_monitor")
        try:
            url = database_18.url.replace("postgres@", "doctor_watch@")
            with database_18.connect():
                found = doctor.finding("idle_in_transaction", url=url)
            assert found.status == "unknown"
            assert found.what == "role doctor_watch cannot see the sessions of other roles"
            assert found.commands == ("grant pg_read_all_stats to doctor_watch",)
            doctor.run(found)
            with database_18.connect():
                assert seen(doctor.finding("idle_in_transaction", url=url)) == QUIET
        finally:
            admin.execute("drop role doctor_watch")

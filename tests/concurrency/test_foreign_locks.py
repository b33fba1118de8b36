"""Ticks, claims and maintenance while an unprivileged role holds advisory locks with our keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgsluice import schema
from support import rows, value, wait_until
from support.queue_options import set_queue_options
from support.share_groups import claim, create_group, make_log, send

NAMES = [
    "pgmq.queue_orders",
    "pgmq.queue_next",
    "pgq.queue_next",
    "sluice.notifier",
    "sluice.lead",
    "sluice.schedule.nightly",
    "sluice.sink lake",
    "sluice.maintain.q_parts",
    "sluice.maintain.a_parts",
]
NUMBERS = [
    *((1885827956, n) for n in range(9)),
    *((1936221042, n) for n in range(9)),
    *((1936484717, n) for n in range(9)),
]


@pytest.fixture
def plain(database, role):
    """A session with all advisory locks, of a role that may only connect."""
    with database.connect(user=role, application_name="intruder") as session:
        for name in NAMES:
            session.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (name,))
        for pair in NUMBERS:
            session.execute("select pg_advisory_lock(%s, %s)", pair)
        yield session


@pytest.fixture
def system(connection):
    """A log with a share group, and plain, limited and partitioned queues."""
    make_log(connection)
    create_group(connection)
    connection.execute(
        "select pgmq.create('orders'), pgmq.create_partitioned('parts', '10', '100')"
    )
    set_queue_options(connection, "orders", fleet_concurrency=3)
    connection.execute("select pgmq.send('orders', '{}')")
    connection.execute("set lock_timeout = '5s'")
    return connection


def test_ticks_go_on(system, plain):
    send(system, "a")
    assert rows(system, "select log_name from sluice.tick()") == [("changes",)]
    send(system, "b")
    assert value(system, "select sluice.log_tick('changes')") == 3
    system.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    assert value(system, "select pgq.ticker('changes')") == 4


def test_claims_go_on(system, plain):
    send(system, "a")
    assert [event.ev_id for event in claim(system)] == [1]
    assert rows(system, "select msg_id from sluice.claim_messages('orders', 30, 1)") == [(1,)]


def test_rotation_and_maintenance_go_on(system, plain):
    send(system, "a")
    system.execute("select sluice.tick()")
    system.execute("update pgq.queue set queue_switch_time = '2000-01-01'")
    assert ("switched",) in rows(system, "select action from sluice.rotate()")
    system.execute("select pgmq.send_batch('parts', array_fill('{}'::jsonb, array[15]))")
    assert any(
        "q_parts" in d for (d,) in rows(system, "select detail from sluice.maintain() where done")
    )
    system.execute("select sluice.insert_event('changes', 't', 'late', delay => '50 ms')")
    wait_until(lambda: value(system, "select pgq.maint_retry_events()") == 1, "the delayed event")


def test_notifier_leads(system, plain):
    assert value(system, "select is_leader from sluice.notifier_pulse(7, '1s', '{}')") is True
    assert value(system, "select sluice.resign('notifier', 7)") is True


def test_maintenance_leads(system, plain):
    assert value(system, "select sluice.lead('maintenance', 7, '1 s')") is True


def test_queues_logs_schedules_and_sinks_go_on(system, plain):
    assert value(system, "select pgq.create_queue('next')") == 1
    system.execute("select pgmq.create('next')")
    assert value(system, "select pgmq.drop_queue('next')") is True
    system.execute("select sluice.schedule('nightly', 'orders', '{}'::jsonb, every => '1 day')")
    assert rows(system, "select * from sluice.sink_position('lake')") == []


@pytest.mark.parametrize(
    "member_of", ["sluice_admin", "sluice_writer", "sluice_reader", "pgq_admin"]
)
def test_only_the_owner_locks_the_table_of_locks(connection, member_of):
    connection.execute(f"set role {member_of}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(
            "do $$ begin lock table sluice.lock in share update exclusive mode; end $$"
        )


def test_installation_goes_on_and_names_the_session_that_holds_its_lock(database, role):
    notices = []
    with (
        database.connect(user=role, application_name="intruder") as session,
        database.connect() as connection,
    ):
        session.execute("select pg_advisory_lock(hashtextextended('pgsluice.install', 0))")
        pid = session.info.backend_pid
        connection.add_notice_handler(lambda d: notices.append((d.severity, d.message_primary)))
        connection.execute("set statement_timeout = '20s'")

        assert schema.install(connection) == ()

    assert notices[0] == (
        "WARNING",
        "installation goes on without its lock, "
        f"which is held by pid {pid}, role {role}, application 'intruder'",
    )


@pytest.mark.slow
def test_installation_waits_for_another_installer_and_names_it(database):
    notices = []
    with (
        database.connect(application_name="first", autocommit=False) as first,
        database.connect() as connection,
        ThreadPoolExecutor(1) as thread,
    ):
        schema.install(first)
        connection.add_notice_handler(lambda d: notices.append(d.message_primary))

        second = thread.submit(schema.install, connection)
        wait_until(lambda: len(notices) > 0, "the second installer to name the first")
        assert not second.done()
        pid = first.info.backend_pid
        first.commit()

        assert second.result(timeout=60) == ()
    assert notices[0] == (
        f"waiting for another installation: pid {pid}, role postgres, application 'first'"
    )

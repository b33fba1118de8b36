"""A role without rights holds an advisory lock by every key of ours: ticks, claims and maintenance go on."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value, wait_until
from support_share_groups import claim, create_group, make_log, send

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
    """A session of a role that may do nothing but connect, with every lock."""
    with database.connect(user=role, application_name="intruder") as session:
        for name in NAMES:
            session.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (name,))
        for pair in NUMBERS:
            session.execute("select pg_advisory_lock(%s, %s)", pair)
        yield session


@pytest.fixture
def system(connection):
    """A log with a share group, and queues: plain, with limits and partitioned."""
    make_log(connection)
    create_group(connection)
    connection.execute(
        "select pgmq.create('orders'), pgmq.create_partitioned('parts', '10', '100')"
    )
    connection.execute("select sluice.set_queue_limits('orders', 3)")
    connection.execute("select pgmq.send('orders', '{}')")
    connection.execute("set lock_timeout = '5s'")
    return connection


def test_ticks_go_on(system, plain):
    send(system, "a")
    assert rows(system, "select queue_name from sluice.tick()") == [("changes",)]
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
    assert value(system, "select sluice.notifier_resign(7)") is True


def test_maintenance_leads_and_names_the_session(system, plain):
    warnings = []
    system.add_notice_handler(lambda d: warnings.append(d.message_primary))

    assert value(system, "select sluice.lead(pg_backend_pid())") is True

    assert len(warnings) == 1
    assert f"pid {plain.info.backend_pid}, role " in warnings[0]
    assert "intruder" in warnings[0]


def test_queues_logs_schedules_and_sinks_go_on(system, plain):
    assert value(system, "select pgq.create_queue('next')") == 1
    system.execute("select pgmq.create('next')")
    assert value(system, "select pgmq.drop_queue('next')") is True
    system.execute("select sluice.schedule('nightly', 'orders', '{}'::jsonb, every => '1 day')")
    assert rows(system, "select * from sluice.sink_position('lake')") == []


@pytest.mark.parametrize(
    "member_of", ["sluice_admin", "sluice_writer", "sluice_reader", "pgq_admin"]
)
def test_only_the_owner_locks_the_tables_of_locks(connection, member_of):
    connection.execute(f"set role {member_of}")
    for table in ("lock", "named_lock", "notifier_lock"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(
                f"do $$ begin lock table sluice.{table} in share update exclusive mode; end $$"
            )

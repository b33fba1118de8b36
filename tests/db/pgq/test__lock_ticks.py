"""pgq._lock_ticks: one session at a time ticks a log."""

import psycopg
import pytest

from support import value


@pytest.fixture
def holder(database, connection):
    connection.execute("select pgq.create_queue('a'), pgq.create_queue('b')")
    with database.connect(autocommit=False) as session:
        assert value(session, "select pgq._lock_ticks(1, false)") is True
        yield session


def test_locked_log_is_refused_at_once_and_others_are_not(connection, holder):
    assert value(connection, "select pgq._lock_ticks(1, false)") is False
    assert value(connection, "select pgq._lock_ticks(2, false)") is True
    assert value(holder, "select pgq._lock_ticks(1, false)") is True
    holder.rollback()

    assert value(connection, "select pgq._lock_ticks(1, false)") is True


def test_waiting_obeys_the_lock_timeout(connection, holder):
    connection.execute("set lock_timeout = '50ms'")

    with pytest.raises(psycopg.errors.LockNotAvailable):
        connection.execute("select pgq._lock_ticks(1, true)")


def test_lock_writes_nothing_and_blocks_no_reader_or_writer(connection, holder):
    assert value(holder, "select pg_current_xact_id_if_assigned()::text") is None
    connection.execute("set lock_timeout = '5s'")
    connection.execute("select pgq.insert_event('a', 't', 'd')")
    assert value(connection, "select count(*) from pgq.tick_1") == 1


@pytest.mark.parametrize("role_name", ["sluice_reader", "sluice_writer", "sluice_monitor"])
def test_table_of_the_lock_cannot_be_locked_by_roles_that_do_not_tick(
    connection, holder, role_name
):
    connection.execute(f"set role {role_name}")

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(
            "do $$ begin lock table pgq.tick_2 in share update exclusive mode; end $$"
        )

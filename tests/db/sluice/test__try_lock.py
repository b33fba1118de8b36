"""sluice._try_lock and the locks _wait_for_lock, _lock_name and _lock_notifier."""

import psycopg
import pytest

from support import value

CLASS = 1936221042


@pytest.fixture
def holder(database):
    with database.connect(autocommit=False) as session:
        session.execute("set application_name = 'the holder'")
        session.commit()
        yield session


def try_lock(session, number):
    return value(session, "select sluice._try_lock(%s, %s)", CLASS, number)


@pytest.mark.parametrize("is_new", [True, False])
def test_row_is_locked_to_the_end_of_the_transaction(connection, holder, is_new):
    if not is_new:
        assert try_lock(connection, 7) is True
    assert [try_lock(holder, 7), try_lock(holder, 7)] == [True, True]
    assert [try_lock(connection, 7), try_lock(connection, 8)] == [False, True]
    holder.rollback()

    assert try_lock(connection, 7) is True
    assert value(connection, "show lock_timeout") == "0"


@pytest.mark.slow
@pytest.mark.parametrize("in_savepoint", [False, True])
def test_waiting_ends_with_the_name_of_the_holder(connection, holder, in_savepoint):
    try_lock(connection, 7)
    if in_savepoint:
        holder.execute("savepoint a")
    try_lock(holder, 7)
    if in_savepoint:
        holder.execute("release savepoint a")

    found = value(connection, "select sluice._wait_for_lock(%s, 7)", CLASS)

    pid = holder.info.backend_pid
    assert found == f"Its session has pid {pid}, role postgres, application 'the holder'."
    holder.commit()
    assert value(connection, "select sluice._wait_for_lock(%s, 7)", CLASS) is None


def test_sink_is_locked_with_and_without_a_row(connection, holder):
    for _ in range(2):
        holder.execute("select * from sluice.sink_position('lake')")
        connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute("select * from sluice.sink_position('lake')")
        connection.execute("select * from sluice.sink_position('another')")
        holder.rollback()
        connection.execute("select sluice.sink_commit('lake', 1)")


def test_notifier_lock_takes_no_transaction_id(connection, holder):
    assert value(holder, "select sluice._lock_notifier(false)") is True
    assert value(holder, "select pg_current_xact_id_if_assigned()::text") is None
    assert value(connection, "select sluice._lock_notifier(false)") is False
    connection.execute("set lock_timeout = '50ms'")
    assert value(connection, "select sluice._lock_notifier(true)") is False


DEAD = "select n_dead_tup from pg_stat_all_tables where relid = 'sluice.lock'::regclass"


def test_name_is_locked_to_the_end_of_the_transaction_and_leaves_no_dead_row(connection, holder):
    holder.execute("select sluice._lock_name('x')")
    connection.execute("set lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        connection.execute("select sluice._lock_name('x')")
    connection.execute("select sluice._lock_name('y')")
    holder.commit()

    for _ in range(3):
        connection.execute("select sluice._lock_name('x')")
    assert value(connection, "select count(*) from sluice.lock") == 2
    connection.execute("select pg_stat_force_next_flush()")
    assert value(connection, DEAD) == 0


def test_a_new_name_is_waited_for_until_it_is_rolled_back(connection, holder):
    holder.execute("select sluice._lock_name('new')")
    connection.execute("set lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        connection.execute("select sluice._lock_name('new')")
    holder.rollback()

    connection.execute("select sluice._lock_name('new')")

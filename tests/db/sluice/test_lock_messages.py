import psycopg
import pytest

from support import rows, value, wait_until

LOCK = "select * from sluice.lock_messages('orders', '{1, 1, 9}', '{1, 2, 1}')"


def test_a_claim_that_is_locked_stays_when_its_time_is_over(database, connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    with database.connect(autocommit=False) as session:
        assert rows(session, LOCK) == [(1, "done"), (1, "stale"), (9, "gone")]

        assert rows(connection, "select msg_id from pgmq.read('orders', 30, 1)") == []
        assert value(session, "select sluice.archive('orders', 1, 1)") is True
        session.commit()

    assert value(connection, "select count(*) from pgmq.a_orders") == 1


def test_lock_ends_with_its_session(database, connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    session = database.connect(autocommit=False)
    session.execute(LOCK)

    session.close()

    read = "select read_ct from pgmq.read('orders', 30, 1)"
    wait_until(lambda: rows(connection, read) == [(2,)], "the lock to end with its session")


def test_a_queue_that_does_not_exist_is_an_undefined_table(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(LOCK)

import psycopg
import pytest


def test_the_lock_is_per_table_and_held_until_the_transaction_ends(database):
    with database.connect(autocommit=False) as first, database.connect() as second:
        first.execute("select pgmq.acquire_queue_lock('Orders')")
        second.execute("set lock_timeout = '100ms'")

        second.execute("select pgmq.acquire_queue_lock('others')")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("select pgmq.acquire_queue_lock('orders')")
        first.rollback()
        second.execute("select pgmq.acquire_queue_lock('orders')")


@pytest.mark.parametrize("name", ["a;b", "", "Ümläut", None])
def test_any_name_can_be_locked(connection, name):
    connection.execute("select pgmq.acquire_queue_lock(%s)", [name])

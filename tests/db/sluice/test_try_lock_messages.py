"""sluice.try_lock_messages: it locks messages without waiting."""

import psycopg
import pytest

from support import rows, value

TRY = "select * from sluice.try_lock_messages('orders', '{1, 2, 3, 9}')"


@pytest.fixture
def three(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 3)")
    return connection


def test_messages_that_another_transaction_has_locked_are_returned(database, three):
    with database.connect(autocommit=False) as other, database.connect(autocommit=False) as session:
        other.execute("select from pgmq.q_orders where msg_id = 2 for update")
        other.execute("select sluice.archive('orders', 3, 1)")

        assert rows(session, TRY) == [(2,), (3,)]

        other.commit()
        assert rows(session, TRY) == []


def test_the_others_are_locked_to_the_end_of_the_transaction(database, three):
    with database.connect(autocommit=False) as session:
        assert rows(session, TRY) == []
        assert rows(three, TRY) == [(1,), (2,), (3,)]
        assert value(three, "select count(*) from pgmq.read('orders', 30, 3)") == 0

        session.rollback()
        assert rows(three, TRY) == []


def test_a_queue_that_does_not_exist_is_an_undefined_table(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(TRY)
